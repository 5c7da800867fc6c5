"""Notes of runs in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from whichloop.experiments.compare.results import Results
from whichloop.metrics.comparison import compare as metrics_of
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import store
from whichloop.reports.mlflow.notes import arm_note
from whichloop.text.doc import markdown_cell

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
    assert f"| {markdown_cell(found.verdict.rows[0].loop)} |" in tracking.note(found)


def test_a_note_of_many_arms_has_whole_blocks_and_leaves_the_rest_to_the_page(run):
    found = compared(run, [f"arm number {number}" for number in range(25)])
    said = tracking.note(found)
    assert len(said) <= store.MAX_TAG
    assert said.endswith("The whole page is among the artifacts: `report.html`.")
    assert "Accuracy, a minus b" not in said


def test_a_note_says_that_no_verdict_holds(run):
    assert "- **Invalid** " in tracking.note(replace(run, comparison=replace(run.comparison, invalid=True)))
