"""What the first line puts first: tasks that were gained or lost before bills, and a bound of nothing as 0."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import ALL, arm_of, failing
from tests.experiments.gate.test_better_here import of_other_code
from whichloop.experiments.gate import GateResult, bless, headline, judge
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.line_words import effect_in_words
from whichloop.experiments.gate.output.sentences import MAX_FIRST, further_lines
from whichloop.metrics.gate import Bounds
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.causes import Cause


def cheaper(record: Record) -> Record:
    return replace(record, input_tokens=record.input_tokens // 2)


def test_what_a_passing_run_gained_stands_before_its_bill(altered):
    was = of_other_code(bless(altered(poor, traced=False)))
    judged = judge(altered(cheaper, traced=False), was, metrics={"accuracy": 0.02, "tokens": 0.1})
    gained = sum(change.became == "better" for change in judged.tasks)
    assert gained > 24
    assert headline(judged) == f"pass: {gained} task-arm pairs better, none worse"
    assert further_lines(judged)[0].startswith("Better: ")


def test_what_stayed_is_named_by_arm_with_its_metrics(altered, baseline):
    metrics = {"accuracy": 0.02, "false_success_rate": 0.02, "tokens": 0.5}
    judged = judge(
        altered(lambda record: replace(cheaper(record), answer=[record.answer])), of_other_code(baseline), metrics=metrics
    )
    held = judged.with_answers_held("fail")
    assert headline(held, 1).startswith("other answers: ")
    assert "Every trial scored and ended as in the baseline." in further_lines(held, 1)


def poor(record: Record) -> Record:
    return replace(record, scores={"accuracy": 0.0}) if record.task in ALL[:8] else record


def test_scores_are_said_to_stay_only_where_accuracy_did(altered):
    """Another metric that stayed in every trial of one arm says nothing of scores, and what was gained stands first."""
    was = of_other_code(bless(altered(poor, traced=False)))
    judged = judge(altered(lambda record: record, traced=False), was, metrics={"accuracy": 0.5, "false_success_rate": 0.02})
    said = headline(judged)
    assert "has the score" not in "".join(further_lines(judged))
    assert {line.outcome for line in judged.lines if line.metric == "accuracy"} == {"pass"}
    assert judged.outcome == "pass", "and not unchanged, since tasks got better"
    assert "has the score" not in said
    assert said.endswith(" task-arm pairs better, none worse")


@pytest.mark.parametrize("arm", ["bare/clean", "finish/clean"])
def test_a_change_both_ways_begins_with_both_counts(altered, arm):
    was = of_other_code(bless(altered(failing(*ALL[:2], arm="bare/clean"))))
    judged = judge(altered(failing(*ALL[4:7], arm=arm)), was)
    if arm == "bare/clean":
        assert headline(judged).startswith(f"{judged.outcome}: 3 task-arm pairs worse (other 3), 2 better; ")
    else:
        assert headline(judged).startswith("worse here: 3 tasks lost, none gained in finish/clean")


def dearer(record: Record) -> Record:
    return replace(record, input_tokens=record.input_tokens * 3)


def test_a_run_that_fails_by_its_bill_says_that_accuracy_rose(altered):
    """Who reads that a gate failed takes it for a loss of accuracy. How many tasks got better stands beside the rise alone."""
    was = of_other_code(bless(altered(poor, traced=False)))
    judged = judge(altered(dearer, traced=False), was, metrics={"accuracy": 0.02, "tokens": 0.1})
    assert headline(judged, 1).startswith("regression: ")
    assert "in tokens ×" in headline(judged, 1)
    (said,) = [line for line in further_lines(judged, 1) if "rose" in line]
    assert said.startswith("Accuracy rose all the same: ")
    for arm in judged.arms:
        better = sum(change.became == "better" for change in judged.tasks if change.arm == arm.arm)
        assert better > 0
        assert f"{arm.arm} {effect_in_words(arm.lines[0])} ({better} tasks better, none worse)" in "".join(further_lines(judged))
    assert not any("better, none worse" in line and "rose" not in line for line in [headline(judged), *further_lines(judged)])


def test_a_run_that_fails_by_its_bill_says_that_accuracy_fell(altered, baseline):
    """Within a margin that bears the loss, the loss is told beside what the run is held to."""
    judged = judge(altered(lambda record: dearer(failing(ALL[0])(record))), baseline, metrics={"accuracy": 0.5, "tokens": 0.1})
    (lost,) = [arm for arm in judged.arms if arm.lines[0].effect.value < 0]
    fell = f"accuracy fell, too: {lost.arm} {effect_in_words(lost.lines[0])} (1 task worse, none better)"
    dearest = min((line for line in judged.lines if line.metric == "tokens"), key=lambda line: line.weight)
    assert headline(judged).startswith(f"regression: {dearest.arm} in tokens ×")
    assert fell.lower() in "".join([headline(judged), *further_lines(judged)]).lower()


def claiming(record: Record) -> Record:
    """Nearly every trial of one arm gives a wrong answer as done, though few of them lost their score."""
    return replace(record, false_success=True) if record.arm == "bare/clean" and record.task in ALL[:9] else record


CLAIMED = {"accuracy": 0.02, "false_success_rate": 0.02}


@settings(max_examples=cases(8))
@given(st.integers(0, 12), st.sampled_from(["bare/clean", "finish/clean"]), st.sampled_from([0.0, 0.02, 0.5]))
def test_accuracy_that_fails_by_more_than_its_margin_stands_first_whatever_else_fails(untraced, its_baseline, lost, arm, margin):
    """Be it as worse here, beside a regression of another metric, whose outcome stays that of the run."""
    found = replace(untraced, records=tuple(failing(*ALL[:lost], arm=arm)(claiming(record)) for record in untraced.records))
    judged = judge(found, of_other_code(its_baseline), metrics=CLAIMED | {"accuracy": margin})
    assert judged.outcome == "regression"
    fails = any(
        line.metric == "accuracy" and line.outcome in ("regression", "worse here") and not line.is_within for line in judged.lines
    )
    assert fails == (lost / 12 >= margin and lost > 0)
    first_metric = "accuracy" if fails else "false_success_rate"
    for named in (1, 4):
        assert f" in {first_metric} " in headline(judged, named)


def test_what_the_run_is_a_regression_by_is_told_beside_the_loss_of_accuracy(altered, baseline):
    judged = judge(altered(lambda record: failing(*ALL[:2])(claiming(record))), of_other_code(baseline), metrics=CLAIMED)
    accuracy, claims = arm_of(judged, "bare/clean").lines
    assert (judged.outcome, accuracy.outcome, claims.outcome) == ("regression", "worse here", "regression")
    assert headline(judged).startswith(
        f"regression: 2 task-arm pairs worse (other 2); bare/clean in accuracy {effect_in_words(accuracy)}"
    )
    (beside,) = [line for line in further_lines(judged) if line.startswith("Regression: ")]
    assert beside.startswith(f"Regression: bare/clean in false_success_rate {effect_in_words(claims)}, margin +0.02, 12 tasks")
    worst = next(
        line for line in further_lines(judged) if line.startswith("Worst in false_success_rate (share of the trials that ")
    )
    assert further_lines(judged).index(beside) < further_lines(judged).index(worst), "its meaning stands behind it"
    assert "fell, too" not in "".join(further_lines(judged))
    assert [row[1] for row in brief.rows(judged, short=False)[1:3]] == ["accuracy", "false_success_rate"]


def test_nothing_is_said_to_rise_where_accuracy_fell_or_the_run_passes(altered, baseline):
    for judged in (
        judge(altered(lambda record: dearer(failing(*ALL[:5])(record))), baseline, metrics={"tokens": 0.1}),
        judge(altered(traced=False), of_other_code(bless(altered(poor, traced=False))), metrics={"tokens": 0.1}),
    ):
        assert "rose" not in "".join([headline(judged), *further_lines(judged)])


@given(st.sampled_from([0.0, -0.0]), st.floats(-0.0004, 0.0004), st.booleans())
def test_no_bound_is_minus_nothing(wind_line, zero, small, short):
    line = replace(wind_line, outcome="pass", effect=Bounds(zero, small, zero))
    assert "-0.000" not in effect_in_words(line, short=short)
    assert "-.00" not in effect_in_words(line, short=short)
    written = json.loads(json.dumps(line.to_json()["effect"]))
    assert all(math.copysign(1, number) == 1 or number for number in written.values())


@given(st.floats(1e-15, 0.0004), st.floats(0.0005, 0.9), st.booleans(), st.booleans())
def test_a_bound_beside_nothing_is_not_nothing(wind_line, near, far, is_gain, short):
    """Where the whole interval lies on one side of 0, so does each of its ends as it is written."""
    low, high = (near, far) if is_gain else (-far, -near)
    written = effect_in_words(replace(wind_line, outcome="pass", effect=Bounds((low + high) / 2, low, high)), short=short)
    end = written.partition("[")[2].rstrip("]").split(", ")[0 if is_gain else 1]
    assert end[0] in ("+>" if is_gain else "-<")
    assert end in (">0", "<0") or float(end) != 0


@pytest.fixture(scope="module")
def wind_line(wind, baseline):
    return arm_of(judge(wind, baseline), "bare/clean").lines[0]


@settings(max_examples=cases(5))
@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from([None, "crashed", "max_steps"]), st.booleans())
def test_the_first_line_is_short_and_no_line_is_without_its_full_stop(wind, baseline, worse, dear, stop, claims):
    """Whatever the run lost: arms here have short names."""

    def change(record: Record) -> Record:
        ended = record if stop is None or record.task not in ALL[:worse] else replace(record, stop=stop, reason="KeyError: 'x'")
        lost = failing(*ALL[:worse])(replace(ended, false_success=claims))
        return replace(lost, input_tokens=lost.input_tokens * (1 + (record.task in ALL[:dear])))

    found = replace(wind, records=tuple(map(change, wind.records)))
    judged = judge(found, baseline, metrics={"tokens": 0.1})
    assert len(headline(judged)) <= MAX_FIRST
    for line in further_lines(judged):
        assert line.startswith("whichloop ") or (line.endswith(".") and not line.endswith(".."))


@pytest.fixture(scope="module")
def its_baseline(untraced):
    return bless(untraced)


CAUSE_OF: dict[str, Cause] = {
    "bare/clean": "parse",
    "finish/clean": "time limit",
    "bare/flaky-tools": "tool argument",
    "finish/flaky-tools": "altered call",
}
"""A cause for each arm that no other arm has, so that a cause beside the wrong arm shows."""
ARMS = list(CAUSE_OF)


def with_causes(judged: GateResult, other: int = 0) -> GateResult:
    """The same with a cause of their own for the tasks that each arm lost; so many of each have the cause `other` instead."""
    seen = Counter[str]()
    changes = []
    for change in judged.tasks:
        seen[change.arm] += change.became == "worse"
        cause: Cause = "other" if seen[change.arm] <= other else CAUSE_OF[change.arm]
        changes.append(replace(change, cause=cause if change.became == "worse" else None))
    return replace(judged, tasks=tuple(changes))


def causes_in(clause: str) -> dict[str, int]:
    """The causes that a clause names, each with its number."""
    return {cause: int(number) for cause, number in re.findall(rf"({'|'.join([*CAUSE_OF.values(), 'other'])}) (\d+)", clause)}


NUMBERS_LOST = st.tuples(*[st.sampled_from([0, 1, 5, 12])] * len(ARMS))


@settings(max_examples=cases(8))
@given(NUMBERS_LOST, st.integers(0, 2), st.sampled_from([0.0, 0.5]), st.booleans(), st.integers(0, 3))
def test_every_cause_of_the_first_line_is_one_of_its_arm(untraced, its_baseline, lost, gained, margin, dear, other):
    """The arm is the one that its clause names, else the one whose estimate the line has; its number counts tasks of that arm."""

    def change(record: Record) -> Record:
        ended = record
        for arm, number in zip(ARMS, lost, strict=True):
            ended = failing(*ALL[:number], arm=arm)(ended)
        return dearer(ended) if dear and record.arm == "finish/clean" else ended

    poorer = replace(untraced, records=tuple(map(failing(*ALL[12 - gained :]), untraced.records)))
    was = of_other_code(bless(poorer)) if gained else its_baseline
    found = replace(untraced, records=tuple(map(change, untraced.records)))
    judged = with_causes(judge(found, was, metrics={"accuracy": margin, "tokens": 0.1}), other)
    clauses = headline(judged).split("; ")
    estimated = [arm for clause in clauses for arm in ARMS if f"{arm} in " in clause]
    of_arm = Counter((change.arm, str(change.cause)) for change in judged.tasks if change.became == "worse")
    for clause in clauses:
        named = [arm for arm in ARMS if arm in clause] or estimated[:1] or ARMS
        for cause, number in causes_in(clause).items():
            assert number == sum(of_arm[arm, cause] for arm in named), headline(judged)
            assert {arm for arm, of in of_arm if of == cause} & {*named}, headline(judged)


def test_where_tasks_of_several_arms_got_worse_the_estimate_has_the_causes_of_its_arm(altered, baseline):
    judged = with_causes(judge(altered(lambda record: failing(*ALL[:9], arm="finish/clean")(failing(*ALL[:12])(record))), baseline))
    change = effect_in_words(arm_of(judged, "bare/clean").lines[0])
    assert headline(judged) == (
        f"regression: 21 task-arm pairs worse; bare/clean in accuracy {change}, margin -0.02: 12 tasks worse (parse 12)"
    )


@settings(max_examples=cases(8))
@given(st.permutations([0, 0, 6, 9]) | st.permutations([0, 8, 6, 11]), st.sampled_from([0.02, 0.1]))
def test_an_unchanged_run_says_which_arms_are_and_what_changed_in_the_others(untraced, its_baseline, gained, margin):
    """Beside its word no count of all arms says that tasks got better: it would be of other arms than the word."""

    def poorer(record: Record) -> Record:
        ended = record
        for arm, number in zip(ARMS, gained, strict=True):
            ended = failing(*ALL[:number], arm=arm)(ended)
        return ended

    was = of_other_code(bless(replace(untraced, records=tuple(map(poorer, untraced.records)))))
    found = replace(untraced, records=tuple(replace(record, answer=[record.answer]) for record in untraced.records))
    judged = judge(found, was, metrics={"accuracy": margin})
    assert judged.outcome == "unchanged"
    said = [headline(judged, 9), *further_lines(judged, 9)]
    assert said[0].startswith("unchanged: every trial ")
    better = Counter(change.arm for change in judged.tasks if change.became == "better")
    for arm in judged.arms:
        told = f"{arm.arm} passes with {better[arm.arm]} task{'s' * (better[arm.arm] > 1)} better, none worse"
        assert (told in " ".join(said)) == (better[arm.arm] > 0) == (arm.lines[0].outcome == "pass")
    assert not any("pairs better" in line for line in said)


def test_one_arm_that_passes_beside_unchanged_ones_has_its_own_clause(altered):
    poor_arm = failing(*ALL[:6], arm="bare/clean")
    was = of_other_code(bless(altered(poor_arm, traced=False)))
    judged = judge(altered(lambda record: replace(record, answer=[record.answer]), traced=False), was)
    assert judged.outcome == "unchanged"
    (beside,) = [line for line in further_lines(judged) if "better" in line and "none worse" in line]
    assert beside.startswith("bare/clean passes with ")
    assert headline(judged).startswith("unchanged: every trial of ")
