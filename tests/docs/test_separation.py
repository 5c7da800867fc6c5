"""The table of which suite tells which designs apart is what its command gives: `python benchmarks/separation.py --write`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from whichloop.runs.registry import generated_suites


@pytest.fixture(scope="module")
def separation() -> ModuleType:
    return load_benchmark("separation")


def shown(separation: ModuleType) -> list[str]:
    """The lines of the table on its page."""
    return block(separation.PAGE, "separation").strip().splitlines()


def test_every_suite_has_its_row(separation: ModuleType) -> None:
    assert [row.split(" | ")[0].strip("| `") for row in shown(separation)[2:]] == sorted(generated_suites())


def test_a_suite_that_is_measured_alone_renews_its_row_and_leaves_those_of_others(separation: ModuleType) -> None:
    head, rule, *rows = shown(separation)
    own = rows[2].replace("0.", "1.")
    page = "\n".join([head, rule, *rows])
    renewed = separation.with_rows(page, "\n".join([head, rule, own]))
    assert renewed.splitlines() == [head, rule, *rows[:2], own, *rows[3:]]
    added = separation.with_rows(page, "\n".join([head, rule, "| `aardvark` | 1 | 2 |"]))
    assert added.splitlines() == [head, rule, "| `aardvark` | 1 | 2 |", *rows]


@pytest.mark.slow
def test_the_accuracies_of_a_row_are_what_the_command_gives(
    separation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One profile of one suite; how many pairs differ depends on all profiles, and slow tests look at all rows."""
    monkeypatch.setattr(separation, "PROFILES", ("stubborn",))
    row = separation.row_of("tables", separation.compared("tables", None, tmp_path))
    (on_page,) = (line for line in shown(separation) if line.startswith("| `tables` |"))
    assert row.split(" | ")[1].split(" (")[0] == on_page.split(" | ")[-1].split(" (")[0]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("suite", sorted(generated_suites()))
def test_all_rows_are_what_the_command_gives(separation: ModuleType, tmp_path: Path, suite: str) -> None:
    assert separation.row_of(suite, separation.compared(suite, None, tmp_path)) in shown(separation)
