"""The tables of coverage, false alarms and power are what `python benchmarks/coverage.py --write` gives, and hold what they say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

ROOT = Path(__file__).parents[2]
NOISE = 4
"""Standard errors of a simulated share: of some hundred shares one in 16,000 lies further off by chance."""


COVERAGE = load_benchmark("coverage")
SECTIONS = {section.name: section for section in COVERAGE.SECTIONS}


def shown(name: str) -> list[list[str]]:
    """The cells of a table on the page, its rule left out."""
    rows = [
        line.strip("| ").split(" | ")
        for line in block(COVERAGE.PAGE, name).splitlines()
        if line.startswith("|") and "---" not in line
    ]
    return [[cell.strip() for cell in row] for row in rows]


def is_kept(promise: tuple[float, float], share: float, runs: int) -> bool:
    least, most = promise
    return least - noise(least, runs) <= share <= most + noise(most, runs)


def noise(share: float, runs: int) -> float:
    return NOISE * math.sqrt(share * (1 - share) / runs) + 1 / runs


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_a_row_for_each_check_and_a_column_for_each_scene(name: str) -> None:
    head, *rows = shown(name)
    assert head == [SECTIONS[name].head, *SECTIONS[name].columns]
    assert [row[0] for row in rows] == [row.name for row in SECTIONS[name].rows]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_numbers_on_the_page_keep_their_promises(name: str) -> None:
    _, *rows = shown(name)
    for row, cells in zip(SECTIONS[name].rows, rows, strict=True):
        for scene, cell in zip(COVERAGE.SCENES, cells[1:], strict=True):
            assert cell == "–" or is_kept(row.promise, float(cell), row.runs), f"{row.name}, {scene.name}: {cell}"


def test_the_page_says_how_rarely_the_bootstraps_of_variances_hold_the_truth() -> None:
    """Their promise leaves room for the noise of few runs; the sentence does not."""
    rows = {cells[0]: cells[1:] for cells in shown("coverage of crossed loops and models")[1:]}
    few = [float(cell) for name, cells in rows.items() if name.startswith(("task", "loop × task")) for cell in cells[:2]]
    said = " ".join(COVERAGE.PAGE.read_text(encoding="utf-8").split())
    assert f"in as little as {min(few):.2f} of runs" in said
    place = [scene.name for scene in COVERAGE.SCENES].index("100 × 5, 0.7")
    assert f"of a hundred with five repeats loop × task in {rows['loop × task, 0.03'][place]}." in said


def test_what_loops_and_models_move_is_held_as_often_as_the_page_says() -> None:
    rows = {cells[0]: [float(cell) for cell in cells[1:]] for cells in shown("coverage of crossed loops and models")[1:]}
    fixed = [
        share for name, shares in rows.items() if name.startswith(("loop", "model")) and "× task" not in name for share in shares
    ]
    assert min(fixed) > 0.93


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SECTIONS)
def test_a_smaller_simulation_keeps_the_promises_too(name: str) -> None:
    """A quarter of the runs of the page, of which they are the first."""
    for row in SECTIONS[name].rows:
        for scene in COVERAGE.SCENES:
            runs = row.runs // 4
            share = COVERAGE.share_of(row, scene, runs)
            assert share is None or is_kept(row.promise, share, runs), f"{row.name}, {scene.name}: {share}"


def test_the_same_draws_in_every_process() -> None:
    row, scene = SECTIONS["coverage of one arm"].rows[0], COVERAGE.SCENES[0]
    assert COVERAGE.share_of(row, scene, 40) == COVERAGE.share_of(row, scene, 40)


def test_a_promise_allows_for_noise_and_no_more() -> None:
    assert is_kept((0.93, 1.0), 0.93, 2_000)
    assert is_kept((0.93, 1.0), 0.91, 2_000)
    assert not is_kept((0.93, 1.0), 0.90, 2_000)
    assert not is_kept((0.0, 0.05), 0.08, 2_000)
