"""The tables of which suite tells which designs apart are what their command gives: `python benchmarks/separation.py --write`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from whichloop.runs.registry import generated_suites

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def separation() -> ModuleType:
    return load_benchmark("separation")


def shown(separation: ModuleType, name: str) -> list[str]:
    """The rows of a table on its page."""
    return [line for line in block(separation.BLOCKS[name], name).splitlines() if line.startswith("| `")]


def test_every_suite_and_profile_has_its_row(separation: ModuleType) -> None:
    names = sorted(generated_suites())
    assert [row.split(" | ")[0].strip("| `") for row in shown(separation, "separation in short")] == names
    rows = [tuple(cell.strip("| `") for cell in row.split(" | ")[:2]) for row in shown(separation, "separation")]
    assert rows == [(name, profile) for name in names for profile in separation.PROFILES]


def test_a_suite_that_is_measured_alone_renews_its_rows_and_leaves_those_of_others(separation: ModuleType) -> None:
    page = block(separation.BLOCKS["separation in short"], "separation in short").strip()
    head, rule, *rows = page.splitlines()
    own = rows[2].replace("0.", "1.")
    renewed = separation.with_rows(page, "\n".join([head, rule, own]))
    assert renewed.splitlines() == [head, rule, *rows[:2], own, *rows[3:]]
    added = separation.with_rows(page, "\n".join([head, rule, "| `aardvark` | 1 | 2 |"]))
    assert added.splitlines() == [head, rule, "| `aardvark` | 1 | 2 |", *rows]


@pytest.mark.slow
def test_the_accuracies_of_a_row_are_what_the_command_gives(
    separation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One profile of one suite; how many pairs are told apart depends on all profiles, and slow tests look at all rows."""
    monkeypatch.setattr(separation, "PROFILES", ("stubborn",))
    (row,) = separation.whole("tables", separation.compared("tables", None, tmp_path))
    (on_page,) = (line for line in shown(separation, "separation") if line.startswith("| `tables` | stubborn |"))
    assert row.split(" | ")[:-1] == on_page.split(" | ")[:-1]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("suite", sorted(generated_suites()))
def test_all_rows_are_what_the_command_gives(separation: ModuleType, tmp_path: Path, suite: str) -> None:
    found = separation.compared(suite, None, tmp_path)
    assert separation.short(suite, found) in shown(separation, "separation in short")
    assert [row for row in shown(separation, "separation") if row.startswith(f"| `{suite}` ")] == [*separation.whole(suite, found)]
