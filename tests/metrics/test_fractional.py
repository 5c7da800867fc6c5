"""Fractions against the textbook's tables, and what holds for any."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.factors.factorial import effects
from whichloop.metrics.factors.layout import (
    GENERATORS,
    MAX_CANDIDATES,
    Cell,
    Factor,
    Fraction,
    coded,
    crossed,
    fraction,
    full_factorial,
    layout,
)
from whichloop.metrics.record import Record

REGULAR = [(k, 2 ** (k - len(generators.split()))) for k, known in GENERATORS.items() for generators in known]
WORDS_OF_FOUR = {
    (4, 8): 1, (6, 16): 3, (7, 16): 7, (7, 32): 1, (8, 16): 14, (8, 32): 3, (9, 32): 6, (9, 64): 1,
    (10, 32): 10, (10, 64): 2, (11, 32): 25, (11, 64): 4,
}  # fmt: skip
"""Of fractions of minimum aberration (Fries & Hunter 1980; Chen, Sun & Wu 1993), those of resolution IV."""
MIXED = st.lists(st.integers(2, 4), min_size=2, max_size=4).filter(lambda sizes: math.prod(sizes) <= 200)


def factors(sizes: list[int]) -> list[Factor]:
    return [Factor("abcdefghijk"[place], tuple(map(str, range(size)))) for place, size in enumerate(sizes)]


def words(cells: tuple[Cell, ...], length: int) -> int:
    """Products of so many columns that are the same in all cells."""
    signs = 1 - 2 * np.array(cells)
    return sum(abs(signs[:, chosen].prod(axis=1).sum()) == len(cells) for chosen in combinations(range(signs.shape[1]), length))


@pytest.mark.parametrize(("k", "size"), REGULAR)
def test_a_regular_fraction_is_the_textbooks(k, size):
    found = fraction([2] * k, size)
    assert len(set(found.cells)) == size
    assert found.cells[0] == (0,) * k
    assert found.efficiency == 1.0
    assert found.resolution is not None
    assert not any(words(found.cells, length) for length in range(1, found.resolution))
    assert words(found.cells, found.resolution)
    assert words(found.cells, 4) == WORDS_OF_FOUR.get((k, size), 0)
    assert all(sum(column) == size / 2 for column in zip(*found.cells, strict=True))


@pytest.mark.parametrize(("k", "resolution"), [(4, 4), (5, 5), (6, 4), (7, 4), (8, 4), (9, 4), (10, 4), (11, 4)])
def test_the_smallest_of_resolution_iv_or_more_is_taken(k, resolution):
    found = fraction([2] * k)
    assert found.resolution == resolution
    assert len(found.cells) == min(size for factors, size in REGULAR if factors == k)


@given(k=st.sampled_from(sorted(GENERATORS)), most=st.integers(1, 300))
def test_the_largest_that_is_affordable_is_taken(k, most):
    sizes = [size for factors, size in REGULAR if factors == k]
    if most < min(sizes):
        with pytest.raises(ValueError, match=f"at least {min(sizes)} cells, and {most} are affordable"):
            fraction([2] * k, most)
    else:
        assert len(fraction([2] * k, most).cells) == max(size for size in sizes if size <= most)


@pytest.mark.parametrize("k", sorted(GENERATORS))
def test_main_effects_stand_apart_from_interactions(k):
    design = layout(factors([2] * k), fraction([2] * k).cells)
    assert sum(contrast.kind == "main" for contrast in design.contrasts) == k
    known = sum(1 + len(contrast.aliases) for contrast in design.contrasts if contrast.kind == "interaction")
    assert known == math.comb(k, 2)


# D-optimal ones.


def information(cells: tuple[Cell, ...], sizes: list[int]) -> float:
    mains = coded(sizes, cells)
    matrix = np.hstack([np.ones((len(cells), 1)), *mains, *(crossed(a, b) for a, b in combinations(mains, 2))])
    sign, size = np.linalg.slogdet(matrix.T @ matrix)
    return float(size) if sign > 0 else -math.inf


def needed(sizes: list[int]) -> int:
    return 1 + sum(size - 1 for size in sizes) + sum((a - 1) * (b - 1) for a, b in combinations(sizes, 2))


def tried(sizes: list[int], most: int | None = None) -> Fraction | None:
    try:
        return fraction(sizes, most)
    except ValueError:
        return None


@settings(max_examples=cases(6))
@given(sizes=MIXED, seed=st.integers(0, 1000))
def test_no_random_cells_say_more(sizes, seed):
    found, total = tried(sizes), math.prod(sizes)
    if found is None:
        assert needed(sizes) >= total
        return
    assert len(set(found.cells)) == len(found.cells) < total
    assert len(found.cells) >= needed(sizes) or found.resolution is not None
    assert found.cells[0] == (0,) * len(sizes)
    assert 0 < found.efficiency <= 1 + 1e-9
    assert fraction(sizes) == found
    if found.resolution is None:
        everything = full_factorial(sizes)
        others = np.random.default_rng(seed).choice(total, len(found.cells), replace=False)
        assert information(found.cells, sizes) >= information(tuple(everything[i] for i in others), sizes) - 1e-6


@settings(max_examples=cases(12))
@given(sizes=MIXED, most=st.integers(1, 200))
def test_no_more_cells_than_affordable(sizes, most):
    found = tried(sizes, most)
    assert found is None or len(found.cells) <= most


@settings(max_examples=cases(8))
@given(sizes=MIXED, data=st.data())
def test_a_fraction_finds_what_there_is(sizes, data):
    """Main effects and interactions of two factors, from data without any of three: what the full design says."""
    found = tried(sizes)
    if found is None or found.resolution == 4:
        return
    known = full_factorial(sizes)
    number = st.integers(-5, 5)
    single = [data.draw(st.lists(number, min_size=size, max_size=size)) for size in sizes]
    double = {
        (f, g): data.draw(st.lists(st.lists(number, min_size=sizes[g], max_size=sizes[g]), min_size=sizes[f], max_size=sizes[f]))
        for f, g in combinations(range(len(sizes)), 2)
    }

    def value(cell: Cell) -> int:
        mains = sum(single[f][level] for f, level in enumerate(cell))
        return int(100 + mains + sum(both[cell[f]][cell[g]] for (f, g), both in double.items()))

    def estimated(cells: tuple[Cell, ...]) -> dict[str, float]:
        groups = {cell: [Record("", "s", "d", "t", 0, 0, "scored", steps=value(cell))] for cell in cells}
        made = effects({"clean": groups}, layout(factors(sizes), cells), metrics=("steps",)).effects
        return {effect.term: effect.difference.value for effect in made}

    assert estimated(found.cells) == pytest.approx(estimated(known), abs=1e-6)


def test_where_the_levels_come_out_even_they_stand_equally_often():
    cells = fraction([3, 3, 2, 2]).cells
    assert len(cells) == 24
    for size, column in zip((3, 3, 2, 2), zip(*cells, strict=True), strict=True):
        assert {column.count(level) for level in range(size)} == {24 // size}


@pytest.mark.parametrize(
    ("sizes", "most", "said"),
    [
        ([2, 2], None, "no fraction of the 4 cells"),
        ([3, 2], None, "no fraction of the 6 cells"),
        ([2], None, "no fraction of the 2 cells"),
        ([3, 3, 2], 13, "at least 14 cells, and 13 are affordable"),
        ([2] * 11 + [3], None, "6144 combinations of levels are too many"),
    ],
)
def test_where_there_is_none_that_is_said(sizes, most, said):
    assert MAX_CANDIDATES < 6144
    with pytest.raises(ValueError, match=said):
        fraction(sizes, most)
