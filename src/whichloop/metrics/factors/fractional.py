"""Which cells of a factorial experiment to run: all, or a fraction that still tells main effects from two-factor interactions.

Written here because the one well-kept library of designs, pyDOE3, has optimal designs for numbers only, none for categories, and
its fractions by resolution lack the half fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from ..statistics import Floats
from .layout import Cell, coded, crossed

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
