"""Fractions against the textbook's tables, and what holds for any."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.metrics.test_factorial import every, factors
from whichloop.metrics.factors.factorial import effects
from whichloop.metrics.factors.layout import GENERATORS, Cell, choose_cells, layout
from whichloop.metrics.record import Record

RESOLUTION = {
    (4, 8): 4, (5, 16): 5, (6, 16): 4, (6, 32): 6, (7, 16): 4, (7, 32): 4, (7, 64): 7, (8, 16): 4, (8, 32): 4, (8, 64): 5,
    (8, 128): 8, (9, 32): 4, (9, 64): 4, (9, 128): 6, (10, 32): 4, (10, 64): 4, (10, 128): 5, (11, 32): 4, (11, 64): 4,
    (11, 128): 5,
}  # fmt: skip
"""Factors, cells → resolution of the regular fraction (Box, Hunter & Hunter 2005)."""
WORDS_OF_FOUR = {
    (4, 8): 1, (6, 16): 3, (7, 16): 7, (7, 32): 1, (8, 16): 14, (8, 32): 3, (9, 32): 6, (9, 64): 1,
    (10, 32): 10, (10, 64): 2, (11, 32): 25, (11, 64): 4,
}  # fmt: skip
"""Of fractions of minimum aberration (Fries & Hunter 1980; Chen, Sun & Wu 1993), those of resolution IV."""


def words(cells: tuple[Cell, ...], length: int) -> int:
    """Products of so many columns that are the same in all cells."""
    signs = 1 - 2 * np.array(cells)
    return sum(abs(signs[:, chosen].prod(axis=1).sum()) == len(cells) for chosen in combinations(range(signs.shape[1]), length))


@pytest.mark.parametrize(("k", "size"), RESOLUTION)
def test_a_regular_fraction_is_the_textbooks(k, size):
    cells, resolution = choose_cells([2] * k, size)
    assert (len(set(cells)), cells[0], resolution) == (size, (0,) * k, RESOLUTION[k, size])
    assert [words(cells, length) for length in (1, 2, 3, 4)] == [0, 0, 0, WORDS_OF_FOUR.get((k, size), 0)]
    assert all(sum(column) == size / 2 for column in zip(*cells, strict=True))
    design = layout(factors([2] * k), cells)  # main effects stand apart from interactions
    assert sum(len(each.factors) == 1 for each in design.contrasts) == k
    assert sum(1 + len(each.aliases) for each in design.contrasts if len(each.factors) == 2) == math.comb(k, 2)


@given(k=st.sampled_from(sorted(GENERATORS)), most=st.integers(1, 300))
def test_the_largest_that_is_affordable_is_taken(k, most):
    sizes = [size for factors, size in [*RESOLUTION, (k, 2**k)] if factors == k]
    if most < min(sizes):
        with pytest.raises(ValueError, match=f"at least {min(sizes)} cells, and {most} are affordable"):
            choose_cells([2] * k, most)
    else:
        assert len(choose_cells([2] * k, most)[0]) == max(size for size in sizes if size <= most)


@settings(max_examples=cases(8))
@given(fraction=st.sampled_from([each for each, resolution in RESOLUTION.items() if resolution > 4]), seed=st.integers(0, 1000))
def test_a_fraction_finds_what_there_is(fraction, seed):
    """Main effects and interactions of two factors, from data without any of three: what the full design says."""
    sizes = [2] * fraction[0]
    found, _ = choose_cells(sizes, fraction[1])
    drawn = np.random.default_rng(seed)
    tables = {(f, g): drawn.integers(-5, 6, (sizes[f], sizes[g])) for f in range(len(sizes)) for g in range(f, len(sizes))}

    def estimated(cells: list[Cell]) -> dict[str, float]:
        steps = {cell: 100 + int(sum(table[cell[f], cell[g]] for (f, g), table in tables.items())) for cell in cells}
        groups = {cell: [Record("", "s", "d", "t", 0, 0, "scored", steps=value)] for cell, value in steps.items()}
        made = effects({"clean": groups}, layout(factors(sizes), cells), metrics=("steps",))[0]
        return {effect.term: effect.difference.value for effect in made}

    assert estimated(list(found)) == pytest.approx(estimated(every(sizes)), abs=1e-6)


@pytest.mark.parametrize(
    ("sizes", "most", "said"),
    [
        ([2, 2], 3, "only 4 to 11 options of two values"),
        ([65], 64, "only 4 to 11 options of two values"),
        ([3, 3, 2], 13, "only 4 to 11 options of two values"),
    ],
)
def test_where_there_is_none_that_is_said(sizes, most, said):
    with pytest.raises(ValueError, match=said):
        choose_cells(sizes, most)
