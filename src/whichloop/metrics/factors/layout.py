"""The layout of a factorial experiment: which cells run, which effects they tell, and how each is read off the cells' means.

Of many combinations a fraction runs that tells main effects from two-factor interactions; those of three factors and more are then
taken to be absent. Written here because pyDOE3, the one well-kept library of designs, has optimal ones for numbers only, none for
categories, and its fractions by resolution lack the half fractions.
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
    matrix, places, aliases = np.ones((len(cells), 0)), dict[Cell, slice](), dict[Cell, list[str]]()
    for term, columns in model_columns(sizes, cells).items():
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


def model_columns(sizes: Sequence[int], cells: Sequence[Cell]) -> dict[tuple[int, ...], Floats]:
    """Return the cells × columns of each term: of the mean, of each factor, and of each two; `sizes`: levels of each factor."""
    levels, terms = np.array(cells, dtype=np.int64), [*((f,) for f in range(len(sizes))), *combinations(range(len(sizes)), 2)]
    columns: dict[tuple[int, ...], Floats] = {(): np.ones((len(cells), 1))}
    for term in terms:
        each = [_coding(sizes[f])[levels[:, f]] for f in term]
        columns[term] = each[0] if len(each) == 1 else (each[0][:, :, None] * each[1][:, None, :]).reshape(len(cells), -1)
    return columns


def _coding(levels: int) -> Floats:
    """Return levels × columns, of which each column sums to zero: one column per level but the base, which is -1 in all of them."""
    return np.vstack((-np.ones((1, levels - 1)), np.eye(levels - 1)))


MAX_CANDIDATES, STARTS = 2_000, 8
"""Combinations of levels that a fraction is looked for in, and how often the exchange begins anew."""
_GAIN = 1e-9
"""A determinant that grows by no more than this share has not grown."""

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


@dataclass(frozen=True, slots=True)
class ChosenCells:
    """Cells that run, the one of all bases first, and how good they are."""

    cells: tuple[Cell, ...]
    resolution: int | None
    """Of a regular fraction: main effects are told from interactions of up to so many less 2 factors; None for others."""
    efficiency: float
    """Information per cell on main effects and two-factor interactions, 1 being that of all cells; of sums that are known only."""


def choose_cells(sizes: Sequence[int], most: int) -> ChosenCells:
    """Return all combinations of levels or, of more than `most`, the largest fraction; `sizes`: levels of each factor.

    4 to 11 factors of two levels: a regular fraction of resolution IV or more. Else cells that say most about all main effects and
    two-factor interactions (D-optimal), found by exchange. Raises ValueError where there is none, or none that small.
    """
    total, k = math.prod(sizes), len(sizes)
    if total <= most:
        return ChosenCells(tuple(product(*map(range, sizes))), None, 1.0)
    if set(sizes) == {2} and k in GENERATORS:
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
        return ChosenCells(regular, len(constant), 1.0)
    needed = 1 + sum(size - 1 for size in sizes) + sum((a - 1) * (b - 1) for a, b in combinations(sizes, 2))
    if needed >= total:
        raise ValueError(f"no fraction of the {total} cells tells main effects from two-factor interactions")
    if most < needed:
        raise ValueError(f"a fraction needs at least {needed} cells, and {most} are affordable")
    if total > MAX_CANDIDATES:
        raise ValueError(f"{total} combinations of levels are too many to choose from; leave out factors or levels")
    cells, even = list(product(*map(range, sizes))), math.lcm(*sizes)
    rounded = most // even * even  # so many that every level of every factor may stand equally often
    matrix = np.hstack([*model_columns(sizes, cells).values()])
    chosen = _exchanged(matrix, rounded if rounded >= needed else most)
    information = [np.linalg.slogdet(rows.T @ rows)[1] / needed - math.log(len(rows)) for rows in (matrix[chosen], matrix)]
    return ChosenCells(tuple(cells[i] for i in chosen), None, math.exp(information[0] - information[1]))


def _exchanged(matrix: Floats, n: int) -> list[int]:
    """Return n rows whose information has the largest determinant found; the first row is always among them.

    Fedorov's exchange (1972): from random rows, the pair of a row in and a row out that gains most is swapped while any gains.
    """
    generator = np.random.default_rng(0)
    # Columns of equal length, without relation to each other: numbers stay tame, and the best rows are the same.
    rows = np.linalg.qr(matrix)[0] * math.sqrt(len(matrix))
    ridge = 1e-6 * np.eye(rows.shape[1])  # random rows may lack a direction at first
    best, largest = np.arange(n), -math.inf
    for _ in range(STARTS):
        chosen = np.append(0, 1 + generator.permutation(len(rows) - 1)[: n - 1])
        while True:
            inverse = np.linalg.inv(rows[chosen].T @ rows[chosen] + ridge)
            cross = rows[chosen] @ inverse @ rows.T
            variances = np.einsum("ij,jk,ik->i", rows, inverse, rows)
            ratios = (1 + variances)[None, :] * (1 - variances[chosen])[:, None] + cross**2
            ratios[:, chosen] = 0.0
            ratios[chosen == 0] = 0.0
            out, new = np.unravel_index(int(ratios.argmax()), ratios.shape)
            if ratios[out, new] <= 1 + _GAIN:
                break
            chosen[out] = new
        size = float(np.linalg.slogdet(rows[chosen].T @ rows[chosen])[1])
        if size > largest + _GAIN:
            best, largest = chosen, size
    return sorted(int(row) for row in best)
