"""The grids of docs/statistics.md are what `python benchmarks/interval_grid.py --write` gives, and keep what they promise."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

ROOT = Path(__file__).parents[2]


GRID = load_benchmark("interval_grid")


def shown(name: str) -> list[list[str]]:
    """The cells of a table on the page, head and rule left out."""
    rows = [line.strip("| ").split(" | ") for line in block(GRID.PAGE, name).splitlines() if line.startswith("|")]
    return rows[2:]


def noise(share: float, runs: int) -> float:
    """Four standard errors of a simulated share."""
    return 4 * math.sqrt(share * (1 - share) / runs)


@pytest.mark.parametrize(("name", "cells"), [("grid of one arm", GRID.ARMS), ("grid of pairs", GRID.PAIRS)])
def test_every_row_of_the_page_covers(name, cells):
    runs = GRID.TABLES[name][1]
    rows = shown(name)
    assert [row[0] for row in rows] == list(cells)
    assert all(float(row[2]) >= 0.94 - noise(0.94, runs) for row in rows)


@pytest.mark.parametrize(
    "cell",
    [
        GRID.ArmCell(10, 1, 1, 0.995, math.inf),
        GRID.ArmCell(30, 1, 1, 0.9, math.inf),
        GRID.ArmCell(120, 1, 10, 0.99, 0.5),
        GRID.ArmCell(30, 1, 0, 0.99, 2.0),
        GRID.ArmCell(5, 10, 1, 0.8, 0.5),
        GRID.ArmCell(45, 5, 3, 0.95, 0.05),
    ],
)
def test_one_arm_covers_in_cells_that_were_short_of_it(cell):
    found = cell.found(1_000)
    assert found.ours.covered >= 0.94 - noise(0.94, 1_000)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["grid of one arm", "grid of pairs"])
def test_a_smaller_simulation_covers_too(name):
    for cells in (GRID.ARMS if name == "grid of one arm" else GRID.PAIRS).values():
        for cell in cells:
            assert cell.found(200).ours.covered >= 0.94 - noise(0.94, 200), cell
