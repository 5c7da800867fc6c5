"""Notes of runs in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.comparison import compare as metrics_of
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import store
from whichloop.reports.mlflow.notes import MAX_LOOPS, arm_note

IN_ONE_FORK = "the comparison that is logged once"


def compared(run: Results, names: Sequence[str]) -> Results:
    """The first two arms' records, again and again under other names."""
    arms = [arm.info for arm in run.comparison.arms[:2]]
    infos = [replace(arms[number % 2], arm=name, profile="clean") for number, name in enumerate(names)]
    records = [
        replace(record, arm=name)
        for number, name in enumerate(names)
        for record in run.records
        if record.arm == arms[number % 2].arm
    ]
    return replace(run, records=tuple(records), comparison=metrics_of(records, infos))


@settings(max_examples=15)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=5, unique=True))
@example(["<img src=x onerror=alert(1)>", "[a](javascript:x)", "| `b` |", "# c\n- d"])
def test_a_note_holds_names_as_text(run, names):
    found = compared(run, names)
    for said in (tracking.note(found), *(arm_note(arm, found.comparison.pairs) for arm in found.comparison.arms)):
        assert "<" not in said
        assert not re.search(r"(?<!\\)[\[`](?!report\.html)", said.replace("`report.html`", ""))
        assert all(line.startswith(("- ", "| ", "|:", "arithmetic", "")) for line in said.splitlines())
    matrix, table = (rows(tracking.note(found), columns) for columns in (2, 6))
    assert len(matrix) == 1 + len(names)
    assert len(table) == 1 + len(names) * (len(names) - 1) // 2
    assert sum("**" in row for row in matrix) == sum(
        cell is not None and cell.place == "highest" for row in answer(found.comparison).rows for cell in row.cells[:1]
    )


def rows(said: str, columns: int) -> list[str]:
    """The lines of the table that has so many columns."""
    tables = [line for line in said.splitlines() if line.startswith("| ")]
    return [line for line in tables if len(re.findall(r"(?<!\\)\|", line)) == columns + 1]


def test_a_note_of_many_arms_says_how_much_it_leaves_to_the_report(run):
    found = compared(run, [f"arm number {number}" for number in range(25)])
    said = tracking.note(found)
    assert len(said) <= store.MAX_TAG
    assert len(rows(said, 2)) == 1 + MAX_LOOPS
    assert f"{25 - MAX_LOOPS} more loops: report.html" in said
    shown = len(rows(said, 6)) - 1
    assert 5 < shown < 300
    assert said.endswith(f"{300 - shown} more pairs: report.html")


def test_a_note_says_first_that_no_verdict_holds(run):
    found = replace(run, comparison=replace(run.comparison, invalid=True, main_warnings=tuple(f"{n} of many" for n in range(9))))
    first, *_ = said = tracking.note(found).split("\n\n")
    assert first == "**This run is invalid: none of its verdicts holds.**"
    assert "- 4 more warnings: report.html" in said[1]
