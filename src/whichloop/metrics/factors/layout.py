"""The layout of a factorial experiment: which cells run, which effects they tell, and how each is read off the cells' means.

Of many combinations a fraction runs that tells main effects from two-factor interactions; those of three factors and more are then
taken to be absent. Written here because pyDOE3, the one well-kept library of designs, lacks the half fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from whichloop.metrics.statistics import Floats

Cell = tuple[int, ...]
"""The number of a level, from 0, for each factor."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What is varied: an option and the values it takes, the first of them the base."""

    name: str
    levels: tuple[str, ...]
    """Its levels as text, at least two."""

    def change(self, start: int, end: int) -> str:
        """Return a step between two levels as text: `retries: 0 → 2`."""
        return f"{self.name}: {self.levels[start]} → {self.levels[end]}"

    def at(self, level: int) -> str:
        """Return a level as text: `retries = 2`."""
        return f"{self.name} = {self.levels[level]}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One effect before there are data."""

    term: str
    factors: tuple[str, ...]
    """Of one factor it is a main effect, of two an interaction."""
    code: Floats
    """Weights of the model's columns."""
    weights: Floats
    """Weights of the cells; the effect is the weighted sum of their means."""
    aliases: tuple[str, ...] = ()
    conditional: tuple[tuple[str, str, Floats], ...] = ()
    """Of an interaction known by itself: either change, at which level of the other factor, and the weights of the cells."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Factors, the cells that run, and what can be told from them."""

    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    matrix: Floats
    """Cells × columns of the model: 1, main effects, and interactions of two factors, each as sums to zero."""
    contrasts: tuple[Contrast, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """`a × b = c × d`: interactions of which only the sum is known."""
        return tuple(" = ".join((" × ".join(each.factors), *each.aliases)) for each in self.contrasts if each.aliases)


def layout(factors: Sequence[Factor], cells: Sequence[Cell]) -> Layout:
    """Return the main effects (each level against the first, and against the one before) and two-factor interactions from cells.

    Contrasts are those of least squares; in a full factorial they are differences of marginal means, whatever interactions exist.
    Raises ValueError where the cells cannot tell a main effect from other effects of at most two factors.
    """
    sizes = [len(factor.levels) for factor in factors]
    levels, aliases = np.array(cells, dtype=np.int64), dict[Cell, list[str]]()
    places: dict[Cell, slice] = {(): slice(0, 1)}
    matrix: Floats = np.ones((len(cells), 1))  # the mean
    for term in (*((f,) for f in range(len(sizes))), *combinations(range(len(sizes)), 2)):
        each = [_coding(sizes[f])[levels[:, f]] for f in term]
        columns = each[0] if len(each) == 1 else (each[0][:, :, None] * each[1][:, None, :]).reshape(len(cells), -1)
        taken, name = np.hstack((matrix, columns)), " × ".join(factors[f].name for f in term)
        if np.linalg.matrix_rank(taken) == taken.shape[1]:
            places[term] = slice(matrix.shape[1], taken.shape[1])
            matrix = taken
            continue
        both = [(other, sign) for other in places if len(other) == len(term) == 2 for sign in (1, -1)]
        same = [(other, sign) for other, sign in both if np.array_equal(matrix[:, places[other]], sign * columns)]
        if not same:
            raise ValueError(f"these cells cannot tell {name} from other effects")
        aliases.setdefault(same[0][0], []).append(f"{'-' if same[0][1] < 0 else ''}{name}")
    inverse = np.asarray(np.linalg.pinv(matrix), dtype=np.float64)

    def mean_at(levels: Mapping[int, int]) -> Floats:
        """Return the weights of the columns in the mean over all cells with these levels: columns of other factors sum to zero."""
        weights = np.zeros(matrix.shape[1])
        for term, place in places.items():
            if levels.keys() >= {*term}:
                rows = [_coding(sizes[f])[levels[f]] for f in term]
                weights[place] = np.kron(*rows) if len(rows) == 2 else rows[0] if rows else 1
        return weights

    contrasts = list[Contrast]()
    for f, factor in enumerate(factors):
        for b in range(1, sizes[f]):
            for a in sorted({0, b - 1}):
                code = mean_at({f: b}) - mean_at({f: a})
                contrasts.append(Contrast(factor.change(a, b), (factor.name,), code, code @ inverse))
    for f, g in (term for term in places if len(term) == 2):
        one, two, alias = factors[f], factors[g], tuple(aliases.get((f, g), ()))
        for a, b in product(range(1, sizes[f]), range(1, sizes[g])):
            at = {(i, j): mean_at({f: i, g: j}) for i in (0, a) for j in (0, b)}
            given = (
                *((one.change(0, a), two.at(j), (at[a, j] - at[0, j]) @ inverse) for j in (0, b)),
                *((two.change(0, b), one.at(i), (at[i, b] - at[i, 0]) @ inverse) for i in (0, a)),
            )
            code, term_text = at[a, b] - at[0, b] - at[a, 0] + at[0, 0], f"{one.change(0, a)} × {two.change(0, b)}"
            contrasts.append(Contrast(term_text, (one.name, two.name), code, code @ inverse, alias, () if alias else given))
    return Layout(tuple(factors), tuple(cells), matrix, tuple(contrasts))


def _coding(levels: int) -> Floats:
    """Return levels × columns, of which each column sums to zero: one column per level but the base, which is -1 in all of them."""
    return np.vstack((-np.ones((1, levels - 1)), np.eye(levels - 1)))


GENERATORS: Mapping[int, Sequence[str]] = {
    4: ("ABC",),
    5: ("ABCD",),
    6: ("ABC BCD", "ABCDE"),
    7: ("ABC BCD ACD", "ABCD ABDE", "ABCDEF"),
    8: ("BCD ACD ABC ABD", "ABC ABD BCDE", "ABCD ABEF", "ABCDEFG"),
    9: ("BCDE ACDE ABDE ABCE", "ABCD ACEF CDEF", "ACDFG BCEFG"),
    10: ("ABCD ABCE ABDE ACDE BCDE", "BCDF ACDF ABDE ABCE", "ABCG BCDE ACDF"),
    11: ("ABC BCD CDE ACD ADE BDE", "CDE ABCD ABF BDEF ADEF", "ABCG BCDE ACDF ABCDEFG"),
}
"""Number of two-level factors → its fractions of resolution IV and more, the smallest first: what each of the last factors is the
product of (Box, Hunter & Hunter 2005, Statistics for Experimenters, Table 6.22)."""


def choose_cells(sizes: Sequence[int], most: int) -> tuple[tuple[Cell, ...], int | None]:
    """Return all combinations of levels, that of all bases first; or of more than `most` the largest fraction, and its resolution.

    `sizes`: levels of each factor. Main effects are told from interactions of up to so many less 2 factors, which is IV or more.
    Raises ValueError where there is no fraction: there are some of 4 to 11 factors of two levels.
    """
    total, k = math.prod(sizes), len(sizes)
    if total <= most:
        return tuple(product(*map(range, sizes))), None
    if set(sizes) != {2} or k not in GENERATORS:
        raise ValueError("only 4 to 11 options of two values have fractions; leave out options or values")
    designs = [[[ord(letter) - ord("A") for letter in word] for word in words.split()] for words in GENERATORS[k]]
    fitting = [design for design in designs if 2 ** (k - len(design)) <= most]
    if not fitting:
        raise ValueError(f"a fraction needs at least {2 ** (k - len(designs[0]))} cells, and {most} are affordable")
    # Products of signs are sums of 0 and 1 modulo 2, so that the cell of all bases is one of them.
    basic = product(range(2), repeat=k - len(fitting[-1]))
    regular = tuple((*cell, *(sum(cell[i] for i in word) % 2 for word in fitting[-1])) for cell in basic)
    signs, lengths = 1 - 2 * np.array(regular), range(1, k + 1)
    words = (list(word) for length in lengths for word in combinations(range(k), length))
    constant = next(word for word in words if abs(int(signs[:, word].prod(axis=1).sum())) == len(regular))
    return regular, len(constant)
