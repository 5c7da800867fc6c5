"""Wrong answers given as done: they became more, no margin judges them, and accuracy does not show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import arm_of, task
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, bless, github_annotations, headline, judge
from whichloop.experiments.gate.changes.other_changes import CLAIMS, WRONGLY, more_claims
from whichloop.experiments.gate.data.baseline import TaskLine
from whichloop.experiments.gate.data.sides import Sides
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.metrics.record import Record

ARM = "bare/clean"


def claiming(*names: str, first_only: bool = False):
    """These tasks of an arm end in a wrong answer that is given as done; their score stays what it was in the baseline."""

    def change(record: Record) -> Record:
        claims = record.arm == ARM and record.task in names and not (first_only and record.repeat)
        return replace(record, false_success=True) if claims else record

    return change


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8), st.booleans())
def test_they_are_told_exactly_where_the_share_rose(some_record, flags, paired):
    line = {"accuracy": (0.0,), "stop": ("finished",), "outcome": (None,)}
    old = {task(n): TaskLine.model_validate({**line, CLAIMS: (float(was),)}) for n, (was, _) in enumerate(flags)}
    new = {task(n): {0: replace(some_record, task=task(n), repeat=0, false_success=now)} for n, (_, now) in enumerate(flags)}
    found = more_claims(Sides(ARM, ARM, old, new), paired=paired)
    was, now = (sum(side) for side in zip(*flags, strict=True))
    assert (found is not None) == (now > was)
    if found is not None:
        assert (found.was, found.now, found.baseline, found.run) == (was, now, was / len(flags), now / len(flags))
        assert found.new == (sum(after and not before for before, after in flags) if paired else now - was)
        first = next(n for n, (before, after) in enumerate(flags) if after and not (paired and before))
        assert found.example == f"{ARM}/{task(first)}/0"


@pytest.fixture(scope="module")
def some_record(wind: Results) -> Record:
    return next(record for record in wind.records if record.arm == ARM)


def test_the_first_line_and_a_warning_tell_them_with_one_of_them_and_the_metric_that_judges(altered, baseline: Baseline):
    judged = judge(altered(claiming(task(1), task(2))), baseline, path=Path("b.json"))
    said = (
        f"4 trials now give {WRONGLY}, and did not in the baseline, such as {ARM}/{task(1)}/0: "
        "false_success_rate 0.000 → 0.167 (bare/clean), not judged; --metric false_success_rate=0.02 judges it"
    )
    assert judged.outcome == "unchanged"
    assert headline(judged).startswith("unchanged: every trial scored and ended as in the baseline")
    assert f"{said}." in further_lines(judged)
    assert github_annotations(judged)[0].startswith("::warning title=whichloop gate%3A unchanged::")
    assert said in github_annotations(judged)[0]
    found = arm_of(judged, ARM).to_json()["claims"]
    assert found == {"was": 0, "now": 4, "baseline": 0.0, "run": 2 / 12, "new": 4, "example": f"{ARM}/{task(1)}/0"}


def test_where_they_are_judged_or_fewer_nothing_is_told_beside(altered, wind: Results, baseline: Baseline):
    more = altered(claiming(task(1), task(2)))
    judged = judge(more, baseline, metrics={CLAIMS: 0.02})
    assert judged.outcome in ("undecided", "regression")
    assert all(arm.claims is None for arm in judged.arms)
    fewer = judge(wind, bless(more))
    assert all(arm.claims is None for arm in fewer.arms)
    assert "wrong answer as done" not in "".join([headline(fewer), *further_lines(fewer)])


def test_without_counterparts_both_counts_are_told(altered, wind: Results, baseline: Baseline):
    found = altered(claiming(task(1), first_only=True))
    other_seed = replace(found, manifest=found.manifest.model_copy(update={"seed": 7}))
    said = f"1 trial gives {WRONGLY}; 0 in the baseline, such as {ARM}/{task(1)}/0: "
    assert any(line.startswith(said) for line in further_lines(judge(other_seed, baseline)))
