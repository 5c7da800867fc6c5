"""The layout of a factorial experiment: which effects its cells can tell, and how each is read off the cells' means.

Where the cells are a fraction of all, the contrasts are those of least squares under main effects and two-factor interactions;
interactions of three factors and more are taken to be absent. In a full factorial the same contrasts are differences of marginal
means, whatever interactions there are.

Which cells of a factorial experiment to run: all, or a fraction that still tells main effects from two-factor interactions.

Written here because the one well-kept library of designs, pyDOE3, has optimal designs for numbers only, none for categories, and
its fractions by resolution lack the half fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whichloop.metrics.statistics import Floats

Cell = tuple[int, ...]
"""The number of a level, from 0, for each factor."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What is varied: an option and the values it takes, the first of them the base."""

    name: str
    levels: tuple[str, ...]
    """Its levels as text, at least two."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step from one level of a factor to another, by their numbers."""

    factor: int
    start: int
    end: int

    def text(self, factors: Sequence[Factor]) -> str:
        factor = factors[self.factor]
        return f"{factor.name}: {factor.levels[self.start]} → {factor.levels[self.end]}"


@dataclass(frozen=True, slots=True)
class Given:
    """A change where another factor has one level."""

    change: Change
    factor: int
    level: int
    weights: Floats
    """Weights of the cells."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One effect before there are data."""

    kind: Literal["main", "interaction"]
    changes: tuple[Change, ...]
    """One for a main effect, two for an interaction."""
    code: Floats
    """Weights of the model's columns."""
    weights: Floats
    """Weights of the cells; the effect is the weighted sum of their means."""
    aliases: tuple[str, ...] = ()
    conditional: tuple[Given, ...] = ()

    def term(self, factors: Sequence[Factor]) -> str:
        return " × ".join(change.text(factors) for change in self.changes)


@dataclass(frozen=True, slots=True)
class Layout:
    """Factors, the cells that run, and what can be told from them."""

    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    matrix: Floats
    """Cells × columns of the model: 1, main effects, and interactions of two factors, each as sums to zero."""
    main_columns: int
    """So many columns, the first ones, are without interactions."""
    contrasts: tuple[Contrast, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """`a × b = c × d`: interactions of which only the sum is known."""
        return tuple(
            " = ".join((_product(self.factors, [change.factor for change in contrast.changes]), *contrast.aliases))
            for contrast in self.contrasts
            if contrast.aliases
        )


def layout(factors: Sequence[Factor], cells: Sequence[Cell]) -> Layout:
    """Return the main effects (each level against the first, and against the one before) and two-factor interactions from cells.

    Raises ValueError where the cells cannot tell a main effect from other effects of at most two factors.
    """
    mains = coded([len(factor.levels) for factor in factors], cells)
    blocks = _Blocks(np.ones((len(cells), 1)))
    for f, factor in enumerate(factors):
        if not blocks.add((f,), mains[f]):
            raise ValueError(f"these cells cannot tell the effect of {factor.name} from others")
    main_columns = blocks.matrix.shape[1]
    aliases: dict[tuple[int, ...], list[str]] = {}
    for f, g in combinations(range(len(factors)), 2):
        columns = crossed(mains[f], mains[g])
        if not blocks.add((f, g), columns):
            aliased, sign = blocks.alias(columns)
            if aliased is None or len(aliased) < 2:
                raise ValueError(f"these cells cannot tell {_product(factors, (f, g))} from effects of single factors")
            aliases.setdefault(aliased, []).append(f"{sign}{_product(factors, (f, g))}")
    inverse = np.asarray(np.linalg.pinv(blocks.matrix), dtype=np.float64)
    factors_of_layout = []
    for changes in _changes(factors, blocks.places):
        named = tuple(change.factor for change in changes)
        code = blocks.code({named: _code(factors, changes)})
        kind: Literal["main", "interaction"] = "main" if len(changes) == 1 else "interaction"
        conditionals = () if kind == "main" or named in aliases else _conditionals(factors, changes, blocks, inverse)
        factors_of_layout.append(Contrast(kind, changes, code, code @ inverse, tuple(aliases.get(named, ())), conditionals))
    return Layout(tuple(factors), tuple(cells), blocks.matrix, main_columns, tuple(factors_of_layout))


def _changes(factors: Sequence[Factor], terms: Mapping[tuple[int, ...], slice]) -> Iterator[tuple[Change, ...]]:
    """Return the changes, main effects first; interactions are between changes from both bases only."""
    for f, factor in enumerate(factors):
        for level in range(1, len(factor.levels)):
            yield (Change(f, 0, level),)
            if level > 1:
                yield (Change(f, level - 1, level),)
    for f, g in combinations(range(len(factors)), 2):
        if (f, g) in terms:
            for a in range(1, len(factors[f].levels)):
                for b in range(1, len(factors[g].levels)):
                    yield (Change(f, 0, a), Change(g, 0, b))


def _conditionals(factors: Sequence[Factor], changes: Sequence[Change], blocks: _Blocks, inverse: Floats) -> tuple[Given, ...]:
    """Return either of two changes at both levels of the other."""
    conditionals = []
    for change, other in (changes, changes[::-1]):
        change_code = _code(factors, [change])
        for level in (other.start, other.end):
            row = _coding(len(factors[other.factor].levels))[level]
            first = change.factor < other.factor
            crossed_code = {
                tuple(sorted((change.factor, other.factor))): np.kron(change_code, row) if first else np.kron(row, change_code)
            }
            code = blocks.code({(change.factor,): change_code, **crossed_code})
            conditionals.append(Given(change, other.factor, level, code @ inverse))
    return tuple(conditionals)


def coded(sizes: Sequence[int], cells: Sequence[Cell]) -> list[Floats]:
    """Return cells × columns for each factor, as many columns as it has levels but one; `sizes`: levels of each factor."""
    levels = np.array(cells, dtype=np.int64)
    return [_coding(size)[levels[:, f]] for f, size in enumerate(sizes)]


def crossed(a: Floats, b: Floats) -> Floats:
    """Return the columns of an interaction: all products of the columns of two factors."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _coding(levels: int) -> Floats:
    """Return levels × columns, of which each column sums to zero: one column per level but the base, which is -1 in all of them."""
    return np.vstack((-np.ones((1, levels - 1)), np.eye(levels - 1)))


def _code(factors: Sequence[Factor], changes: Sequence[Change]) -> Floats:
    """Return weights of the columns of the changes' own block: the change, or the difference between the two differences."""
    weights = np.ones(1)
    for change in changes:
        rows = _coding(len(factors[change.factor].levels))
        weights = np.kron(weights, rows[change.end] - rows[change.start])
    return weights


def _product(factors: Sequence[Factor], named: Sequence[int]) -> str:
    return " × ".join(factors[f].name for f in named)


class _Blocks:
    """Columns of a model, gathered block by block; what earlier columns already say is not taken in."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix
        self.places: dict[tuple[int, ...], slice] = {}

    def add(self, term: tuple[int, ...], columns: Floats) -> bool:
        """Add a block, and say whether it was added: it is not where it says nothing new, or not all of its columns do."""
        taken = np.hstack((self.matrix, columns))
        if np.linalg.matrix_rank(taken) < taken.shape[1]:
            return False
        self.places[term] = slice(self.matrix.shape[1], taken.shape[1])
        self.matrix = taken
        return True

    def code(self, parts: Mapping[tuple[int, ...], Floats]) -> Floats:
        """Return weights of all columns, from the weights of some terms' own."""
        weights = np.zeros(self.matrix.shape[1])
        for term, part in parts.items():
            weights[self.places[term]] = part
        return weights

    def alias(self, columns: Floats) -> tuple[tuple[int, ...] | None, str]:
        """Return the term whose one column is this one, and `-` where its sign is turned; None if it is not another term's."""
        for term, place in self.places.items() if columns.shape[1] == 1 else ():
            for sign, turned in (("", columns), ("-", -columns)):
                if np.array_equal(self.matrix[:, place], turned):
                    return term, sign
        return None, ""


MAX_CANDIDATES = 2_000
"""Combinations of levels that a fraction is looked for in."""
STARTS = 8
"""How often the exchange begins anew."""
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
class Fraction:
    """Cells that run, the one of all bases first, and how good they are."""

    cells: tuple[Cell, ...]
    resolution: int | None
    """Of a regular fraction: main effects are told from interactions of up to so many less 2 factors; None for others."""
    efficiency: float
    """Information per cell on main effects and two-factor interactions, 1 being that of all cells; of sums that are known only."""


def full_factorial(sizes: Sequence[int]) -> tuple[Cell, ...]:
    """Return all combinations of levels, the last factor's changing fastest; `sizes`: levels of each factor."""
    return tuple(product(*(range(size) for size in sizes)))


def fraction(sizes: Sequence[int], most: int | None = None) -> Fraction:
    """Return a part of all combinations: the smallest, or the largest of at most `most` cells.

    4 to 11 factors of two levels: a regular fraction of resolution IV or more. Else cells that say most about all main effects and
    two-factor interactions (D-optimal), found by exchange. Raises ValueError where there is none, or none that small.
    """
    if set(sizes) == {2} and len(sizes) in GENERATORS:
        return _regular(len(sizes), most)
    total = math.prod(sizes)
    needed = 1 + sum(size - 1 for size in sizes) + sum((a - 1) * (b - 1) for a, b in combinations(sizes, 2))
    if needed >= total:
        raise ValueError(f"no fraction of the {total} cells tells main effects from two-factor interactions")
    if most is not None and most < needed:
        raise _too_small(needed, most)
    if total > MAX_CANDIDATES:
        raise ValueError(f"{total} combinations of levels are too many to choose from; leave out factors or levels")
    cells = full_factorial(sizes)
    mains = coded(sizes, cells)
    matrix = np.hstack([np.ones((len(cells), 1)), *mains, *(crossed(a, b) for a, b in combinations(mains, 2))])
    chosen = _exchanged(matrix, _count(sizes, needed, total, most))
    return Fraction(tuple(cells[i] for i in chosen), None, _efficiency(matrix[chosen], matrix))


# --- regular fractions ---


def _regular(k: int, most: int | None) -> Fraction:
    """Return the cells of a regular fraction. Products are taken of numbers 0 and 1, as sums modulo 2, so that the cell of all
    bases is one of them."""
    designs = [generators.split() for generators in GENERATORS[k]]
    sizes = [2 ** (k - len(generators)) for generators in designs]
    if most is not None and most < sizes[0]:
        raise _too_small(sizes[0], most)
    chosen = designs[0] if most is None else max(zip(sizes, designs, strict=True), key=lambda pair: (pair[0] <= most, pair[0]))[1]
    basic = k - len(chosen)
    columns = [[ord(letter) - ord("A") for letter in word] for word in chosen]
    cells = tuple((*cell, *(sum(cell[i] for i in column) % 2 for column in columns)) for cell in full_factorial([2] * basic))
    return Fraction(cells, _resolution(k, columns), 1.0)


def _resolution(k: int, columns: Sequence[Sequence[int]]) -> int:
    """Return the length of the shortest word of the defining relation: products of the generators, each with the factor that it
    defines."""
    basic = k - len(columns)
    words = [frozenset((*column, basic + i)) for i, column in enumerate(columns)]
    lengths = []
    for count in range(1, len(words) + 1):
        for chosen in combinations(words, count):
            word: frozenset[int] = frozenset()
            for generator in chosen:
                word = word ^ generator
            lengths.append(len(word))
    return min(lengths)


# --- D-optimal fractions ---


def _count(sizes: Sequence[int], needed: int, total: int, most: int | None) -> int:
    """Return how many cells there are: where that can be, so many that every level of every factor may stand equally often."""
    even = math.lcm(*sizes)
    if most is None:
        rounded = -(-needed // even) * even
        return rounded if rounded < total else needed
    top = min(most, total - 1)
    rounded = top // even * even
    return rounded if rounded >= needed else top


def _exchanged(matrix: Floats, n: int) -> list[int]:
    """Return n rows whose information has the largest determinant found; the first row is always among them.

    Fedorov's exchange (1972): from random rows, the pair of a row in and a row out that gains most is swapped while any gains.
    """
    generator = np.random.default_rng(0)
    # Columns of equal length, without relation to each other: numbers stay tame, and the best rows are the same.
    rows = np.linalg.qr(matrix)[0] * math.sqrt(len(matrix))
    best, largest = np.arange(n), -math.inf
    for _ in range(STARTS):
        chosen = _improved(rows, np.append(0, 1 + generator.permutation(len(rows) - 1)[: n - 1]))
        size = _log_determinant(rows[chosen])
        if size > largest + _GAIN:
            best, largest = chosen, size
    return sorted(int(row) for row in best)


def _improved(rows: Floats, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    chosen = chosen.copy()
    ridge = 1e-6 * np.eye(rows.shape[1])  # random rows may lack a direction at first
    while True:
        inverse = np.linalg.inv(rows[chosen].T @ rows[chosen] + ridge)
        cross = rows[chosen] @ inverse @ rows.T
        variances = np.einsum("ij,jk,ik->i", rows, inverse, rows)
        ratios = (1 + variances)[None, :] * (1 - variances[chosen])[:, None] + cross**2
        ratios[:, chosen] = 0.0
        ratios[chosen == 0] = 0.0
        out, new = np.unravel_index(int(ratios.argmax()), ratios.shape)
        if ratios[out, new] <= 1 + _GAIN:
            return chosen
        chosen[out] = new


def _log_determinant(rows: Floats) -> float:
    sign, size = np.linalg.slogdet(rows.T @ rows)
    return float(size) if sign > 0 else -math.inf


def _efficiency(part: Floats, whole: Floats) -> float:
    """Return the geometric mean over the model's directions of the information per cell, against that of all cells."""
    p = whole.shape[1]
    sizes = _log_determinant(part) / p - math.log(len(part)), _log_determinant(whole) / p - math.log(len(whole))
    return math.exp(sizes[0] - sizes[1])


def _too_small(needed: int, most: int) -> ValueError:
    return ValueError(f"a fraction needs at least {needed} cells, and {most} are affordable")
