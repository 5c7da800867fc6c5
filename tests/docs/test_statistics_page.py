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
    lines = [line for line in block(COVERAGE.PAGE, name).splitlines() if line.startswith("|") and "---" not in line]
    return [line.strip("| ").split(" | ") for line in lines]


def is_kept(promise: tuple[float, float], share: float, runs: int) -> bool:
    least, most = promise
    return least - noise(least, runs) <= share <= most + noise(most, runs)


def noise(share: float, runs: int) -> float:
    return NOISE * math.sqrt(share * (1 - share) / runs) + 1 / runs


def test_the_numbers_on_the_page_keep_their_promises() -> None:
    """The worst of all scenes, where a table shows it."""
    for name, section in SECTIONS.items():
        head, *rows = shown(name)
        if section.worst is None:
            assert head == [section.head, *(row.name for row in section.rows)]
            assert [cells[0] for cells in rows] == [scene.name for scene in COVERAGE.SCENES]
            continue
        assert [cells[0] for cells in rows] == [row.name for row in section.rows]
        for row, cells in zip(section.rows, rows, strict=True):
            assert is_kept(row.promise, float(cells[1]), row.runs), f"{row.name}: {cells}"


def test_what_loops_and_models_move_is_covered_more_often_than_what_tasks_do() -> None:
    rows = {name: float(share) for name, share, _ in shown("coverage of crossed loops and models")[1:]}
    assert min(share for name, share in rows.items() if not name.startswith(("task", "loop × task"))) > 0.93


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
