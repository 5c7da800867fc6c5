"""A run against a baseline: each reason with its outcome and numbers, and that no larger loss gets a milder outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import (
    ALL,
    ARM,
    SLOW,
    STUCK,
    Change,
    asked,
    changed,
    failing,
    hanging,
    line,
    of,
    of_arms,
    of_other_code,
    of_suite,
    reason,
)
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, Incomparable, bless, judge
from whichloop.experiments.gate.baseline import Accepted
from whichloop.experiments.gate.judge import MAX_AGAIN, doubtful_trials
from whichloop.experiments.gate.reasons import TEXTS
from whichloop.experiments.gate.sides import is_graver
from whichloop.metrics.gate import WORST_FIRST
from whichloop.metrics.record import UNREPLAYABLE, Record
from whichloop.protocol import StopReason

FIRST = f"{ARM}/{ALL[0]}/0"


def both(*changes: Change) -> Change:
    def change(record: Record) -> Record | None:
        found: Record | None = record
        for each in changes:
            found = None if found is None else each(found)
        return found

    return change


def same(found: Baseline) -> Baseline:
    return found


def of_two_tasks_fewer(found: Baseline) -> Baseline:
    """A baseline of a suite in which one task was another, and one was not there."""
    assert found.asked is not None
    tasks = {name: "0" if name == ALL[0] else digest for name, digest in found.asked.tasks.items() if name != ALL[1]}
    return found.model_copy(update={"asked": found.asked.model_copy(update={"tasks": tasks})})


def errored_before(found: Baseline) -> Baseline:
    lines = {name: each.model_copy(update={"outcome": (None, None)}) for name, each in found.arms[ARM].tasks.items()}
    return found.model_copy(update={"arms": {**found.arms, ARM: found.arms[ARM].model_copy(update={"tasks": lines})}})


class Case(NamedTuple):
    change: Change
    outcome: str
    """Of the whole."""
    numbers: Mapping[str, Any]
    """Some of the reason's."""
    before: Callable[[Baseline], Baseline] = same
    where: str = ARM


def unlanded(record: Record) -> Record:
    return replace(record, faults=tuple(replace(fault, landed=False) for fault in record.faults))


CASES = {
    "identical": Case(of(seconds=9.0, wall_s=9.0), "pass", {}),
    "unchanged": Case(of(ALL[:1], errors={"wire": 7}), "pass", {}),
    "within_margin": Case(of(input_tokens=1, output_tokens=0), "pass", {}),
    "tasks_gained": Case(of(), "pass", {"better": 1}, lambda found: of_other_code(found)),
    "worse": Case(failing(*ALL[:10]), "regression", {}),
    "tasks_lost": Case(failing(*ALL[:2]), "regression", {"worse": 2}, of_other_code),
    "undecided": Case(failing(ALL[0]), "undecided", {"tasks": 600}),
    "crash": Case(
        of(ALL[:1], stop="crashed", reason="KeyError: 'x' at my_loop.py:3", repeats=[0]),
        "regression",
        {"trials": 1, "of": 24, "first": FIRST, "error": "KeyError: 'x' at my_loop.py:3"},
    ),
    "hang": Case(hanging(ALL[0]), "regression", {"trials": 2, "of": 24, "first": FIRST, "error": STUCK}),
    "graver_stop": Case(of(ALL[:1], stop="max_steps"), "undecided", {"trials": 2, "first": FIRST}),
    "other_answers": Case(of(ALL[:1], answer="so"), "undecided", {"trials": 2, "of": 24, "first": FIRST, "now": '"so"'}),
    "tasks_changed": Case(
        failing(ALL[0]), "undecided", {"same": 10, "changed": 1, "added": 1, "removed": 0}, of_two_tasks_fewer, where=""
    ),
    "incomplete": Case(lambda r: None if r.task == ALL[0] else r, "invalid", {"missing": 8, "scheduled": 96}, where=""),
    "errored": Case(of(ALL[:1], status="errored", reason="provider: down"), "invalid", {"share": 1 / 12, "most": 0.02}),
    "errored_baseline": Case(of(), "invalid", {"share": 1.0}, errored_before),
    "never_asked": Case(of(calls={}), "invalid", {}),
    "few_faults": Case(unlanded, "invalid", {"landed": 0}, where="bare/flaky-tools"),
    "unsound": Case(of(ALL[:1], arm="", status="excluded", reason=f"{UNREPLAYABLE}it is broken"), "invalid", {}, where=""),
}
"""Code → what it comes of. Where nothing else is said, the loop's code is the blessed one."""


@pytest.mark.parametrize("code", CASES)
def test_each_reason_with_its_outcome_and_numbers(wind, baseline, code):
    case = CASES[code]
    blessed = bless(changed(wind, failing(ALL[0]))) if code == "tasks_gained" else baseline
    judged = judge(changed(wind, case.change), case.before(blessed))
    found = reason(judged, code)
    assert (judged.outcome, found.arm, found.accepted) == (case.outcome, case.where, False)
    assert found.outcome == case.outcome
    assert {name: pytest.approx(value) for name, value in case.numbers.items()} == {
        name: found.numbers[name] for name in case.numbers
    }
    assert found.text
    assert [WORST_FIRST.index(each.leads_to) for each in judged.reasons] == sorted(
        WORST_FIRST.index(each.leads_to) for each in judged.reasons
    ), "those of the outcome stand first"
    if case.outcome == "invalid" and code != "few_faults":
        assert (judged.lines, judged.tasks) == ((), ()), "of a run that is not judged nobody calls a task worse"
    made = judged.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made


TRIALS = st.sets(st.tuples(st.sampled_from(ALL[:3]), st.sampled_from([0, 1])))
STOPS = st.sampled_from(["finished", "max_steps", "crashed"])
HELD = {"accuracy": 0.1, "tokens": 0.1}


@settings(max_examples=cases(40))
@given(TRIALS, TRIALS, TRIALS, STOPS, st.sampled_from([1, 2, 9]), st.booleans(), st.sets(st.sampled_from(get_args(Accepted))))
def test_no_larger_loss_gets_a_milder_outcome_and_none_beyond_its_margin_passes(
    alone, lost, more, before, stop, tokens, is_other, accept
):

    def losing(trials: set[tuple[str, int]], stop: str, tokens: int) -> Any:
        def change(record: Record) -> Record:
            if (record.task, record.repeat) not in trials:
                return record
            return replace(record, scores={"accuracy": 0.0}, stop=stop, input_tokens=record.input_tokens * tokens)

        return alone(change)

    was = bless(losing(before, "finished", 1), HELD)
    was = of_other_code(was) if is_other else was
    fewer, larger = (judge(losing(trials, stop, tokens), was, settings=asked(was, None, *accept)) for trials in (lost, lost | more))
    if before <= lost or lost - before:  # a gain alone may be chance, too
        assert WORST_FIRST.index(larger.outcome) <= WORST_FIRST.index(fewer.outcome)
    for judged in (fewer, larger):
        assert judged.outcome == min((each.leads_to for each in judged.reasons), key=WORST_FIRST.index)
        assert all(each.is_within for each in judged.lines) or judged.outcome != "pass"
        assert {each.code for each in judged.reasons if each.accepted} <= accept | (
            {"undecided"} if "tasks_lost" in accept else set()
        )
        assert not any(each.accepted and each.code in ("worse", "crash", "hang") for each in judged.reasons)
        open_lines = [each.metric for each in judged.reasons if each.accepted and each.code == "undecided"]
        assert "undecided" in accept or set(open_lines) <= {"accuracy"}, "lost tasks are none of another metric"


@pytest.mark.parametrize(
    ("code", "change", "margin"),
    [
        ("undecided", failing(ALL[0]), 0.1),
        ("tasks_lost", failing(ALL[0]), 0.1),
        ("graver_stop", of(ALL[:1], stop="max_steps"), 0.0),
        ("other_answers", of(ALL[:1], answer="so"), 0.0),
    ],
)
def test_what_is_accepted_passes_within_its_margin_alone_and_stays_told(wind, baseline, code, change, margin):
    was = of_other_code(baseline) if code == "tasks_lost" else baseline
    found = changed(wind, change)
    passed = judge(found, was, settings=asked(was, {"accuracy": margin}, code))
    assert (passed.outcome, reason(passed, code).accepted, passed.settings.accept) == ("pass", True, (code,))
    assert judge(found, was, settings=asked(was, {"accuracy": margin})).outcome != "pass"
    if margin:
        assert judge(found, was, settings=asked(was, {"accuracy": 0.05}, code)).outcome != "pass"


def test_to_accept_a_changed_suite_accepts_no_loss_in_the_tasks_that_stayed(wind, baseline):
    was = of_two_tasks_fewer(baseline)
    runs = [wind, changed(wind, failing(*ALL[:2])), changed(wind, failing(*ALL[2:]))]
    judged = [judge(found, was, settings=asked(was, None, "tasks_changed")) for found in runs]
    assert [each.outcome for each in judged] == ["pass", "pass", "regression"]
    assert [(each.judged_tasks, len(each.tasks)) for each in judged] == [(10, 0), (10, 0), (10, 10)]


@pytest.mark.parametrize(
    "chance",
    [
        lambda found: of_other_code(found).model_copy(update={"seed": 5}),
        lambda found: of_arms(of_other_code(found), model="openai/m"),
        lambda found: found,
    ],
    ids=["another seed", "a real model", "the same code"],
)
def test_where_chance_may_be_the_cause_no_few_tasks_decide_and_no_crash_does(wind, baseline, chance):
    lost, gained = (
        judge(changed(wind, failing(ALL[0])), chance(baseline)),
        judge(wind, chance(bless(changed(wind, failing(ALL[0]))))),
    )
    assert (lost.outcome, gained.outcome) == ("undecided", "undecided")
    if chance(baseline) is not baseline:
        crashed = judge(changed(wind, CASES["crash"].change), chance(baseline))
        assert "crash" not in {each.code for each in crashed.reasons}


def again(found: Results, baseline: Baseline, other: Results | None = None) -> list[Record]:
    """What the doubtful trials give that are run once more: the same, or what another run has."""
    return [record for record in (other or found).records if record.key in doubtful_trials(found, baseline)]


def test_a_loss_of_unchanged_code_is_no_chance_where_it_comes_again(wind, baseline):
    found = changed(wind, failing(*ALL[:2]))
    came, went = (judge(found, baseline, again=again(found, baseline, other)) for other in (None, wind))
    assert (came.outcome, came.reasons[0].code, came.again) == ("regression", "tasks_lost", (4, 4))
    assert (went.outcome, went.again) == ("undecided", (4, 0))
    in_part = judge(found, baseline, again=[*again(found, baseline)[:1], *again(found, baseline, wind)[1:]])
    assert (in_part.outcome, in_part.again) == ("undecided", (4, 1)), "one that went otherwise is enough: the loop draws at random"
    assert judge(found, baseline).again == (0, 0)
    changed_code = of_other_code(baseline)
    drawn = judge(found, changed_code, again=again(found, changed_code, wind))
    assert drawn.outcome == "undecided", "the changed loop draws at random"


@pytest.mark.parametrize("why", [STUCK, SLOW])
def test_a_run_that_was_ended_since_a_loop_hangs_is_a_regression_by_what_there_is(wind, baseline, why):

    def begun(record: Record) -> Record | None:
        return hanging(*ALL, reason=why, trace_at=0)(record) if record.repeat == 0 and record.task in ALL[:3] else None

    judged = judge(changed(wind, begun), baseline)
    assert (judged.outcome, judged.lines, [each.code for each in judged.reasons]) == ("regression", (), ["hang"])
    assert judged.reasons[0].numbers == {"trials": 3, "of": 3, "first": FIRST, "error": why}
    assert {task.cause for task in judged.tasks if task.arm == ARM} == {"time limit"}
    whole = judge(changed(wind, hanging(*ALL, reason=why)), baseline)
    assert (whole.outcome, {each.code for each in whole.reasons} >= {"hang", "worse"}) == ("regression", True)
    two = judge(changed(wind, lambda record: begun(record) if record.task in ALL[:2] else None), baseline)
    assert two.outcome == ("regression" if why == STUCK else "invalid")


@given(*[st.sampled_from([None, "of another tool", *StopReason])] * 3)
def test_how_grave_a_stop_is_has_an_order(one, other, third):
    assert not (is_graver(one, other) and is_graver(other, one))
    assert not (is_graver(one, other) and is_graver(other, third)) or is_graver(one, third)
    assert is_graver(one, "crashed") == (one not in (None, "crashed"))


def test_an_unchanged_score_excuses_no_other_metric_and_each_stays_within_its_margin(wind, baseline):
    dear = changed(wind, of(arm="", input_tokens=9_999))
    judged = judge(dear, baseline)
    assert [(line(judged, metric).result, line(judged, metric).reason) for metric in ("accuracy", "tokens")] == [
        ("pass", "unchanged"),
        ("regression", "worse"),
    ]
    assert {each["metric"] for each in judged.worst} == {"tokens"}
    assert judge(changed(wind, failing(*ALL)), baseline).worst == (), "lost tasks are told with their causes"
    assert judge(dear, baseline, settings=asked(baseline, {"tokens": 9.0})).outcome == "pass"
    few = changed(wind, lambda r: replace(r, input_tokens=r.input_tokens + 3 * (r.task == ALL[0])))
    lines = judge(few, baseline, settings=asked(baseline, {"tokens": 0.0, "steps": 0.0})).lines
    assert {each.metric: each.reason for each in lines if each.arm == ARM} == {
        **dict.fromkeys(("accuracy", "steps", "false_success_rate", "calls_doubled"), "unchanged"),
        "tokens": "undecided",
    }
    slower = judge(changed(wind, of(arm="", seconds=99.0)), baseline, settings=asked(baseline, {"seconds": 0.1}))
    assert slower.outcome == "regression", "what is judged by a clock is not identical where the clock differs"


def test_an_arm_that_the_baseline_lacks_is_not_judged_and_one_with_too_few_faults_spoils_it_only_without_a_loss(
    wind, baseline, ran
):
    judged = judge(wind, bless(ran(loops=("bare",), repeats=2)))
    assert (judged.outcome, judged.not_judged) == ("pass", ("finish/clean", "finish/flaky-tools"))
    lost = judge(changed(wind, both(unlanded, failing(*ALL))), baseline)
    assert (lost.outcome, reason(lost, "few_faults").outcome) == ("regression", "undecided")
    own = judge(changed(wind, both(unlanded, failing(*ALL, arm="bare/flaky-tools"))), baseline)
    assert "bare/flaky-tools" not in {each.arm for each in own.reasons if each.code == "few_faults"}


def test_the_order_of_trials_changes_nothing_and_the_names_in_json_stay(wind, baseline):
    found = changed(wind, failing(*ALL[:3]))
    backwards = replace(found, records=found.records[::-1])
    told = judge(found, baseline).to_json()
    assert judge(backwards, baseline).to_json() == told
    assert set(told) == {
        "outcome", "reasons", "lines", "tasks", "causes", "worst", "accept", "run", "baseline", "blessed", "commit", "paired",
        "judged_tasks", "changed", "not_judged", "again", "unrun_lines", "basis",
    }  # fmt: skip


def test_any_changed_code_of_the_user_s_own_is_no_chance_and_a_gain_makes_up_for_no_loss(wind, baseline):
    for before in (
        of_other_code(baseline),
        of_arms(baseline, files={"my_words.py": "0"}),
        of_arms(baseline, options={"a": 1}),
        of_suite(baseline, files={"my_tools.py": "0"}),
    ):
        assert judge(changed(wind, failing(ALL[0])), before).reasons[0].code == "tasks_lost"
    was = of_other_code(bless(changed(wind, failing(ALL[0]))))
    assert judge(wind, was).outcome == "pass"
    assert judge(changed(wind, failing(ALL[1])), was).outcome == "undecided"
    assert judge(changed(wind, of(ALL[1:2], stop="max_steps")), was).outcome == "undecided"
    beside = judge(changed(wind, failing(ALL[1], arm="finish/clean")), was)
    assert (beside.outcome, beside.reasons[0].arm) == ("regression", "finish/clean")


def test_another_seed_pairs_tasks_and_not_trials_and_runs_none_again_but_else_a_few_of_the_worst_of_each_arm(wind, baseline, ran):
    other = ran(repeats=2, seed=5)
    judged = judge(other, baseline)
    assert (judged.paired, judged.worst, judged.outcome) == (False, (), "undecided")
    assert (line(judged).effect.value, line(judged).tasks) == (0.0, 12)  # nothing strikes there
    (lost,) = judge(changed(wind, failing(ALL[0]), seed=9), baseline).tasks
    assert (lost.task, lost.became, lost.repeat) == (ALL[0], "worse", 0)
    assert not judge(ran(), baseline).paired, "another number of repeats"
    keys = doubtful_trials(changed(wind, both(failing(*ALL[6:]), of(ALL[:6], errors={"wire": 7}))), baseline)
    assert len(keys) == MAX_AGAIN
    assert {key[1] for key in keys} <= {*ALL[6:]}
    for found in (wind, other, changed(wind, CASES["incomplete"].change)):
        assert doubtful_trials(found, baseline) == frozenset()


def test_a_crash_or_hang_is_new_where_the_blessed_trial_had_none_and_one_that_was_only_slow_where_it_comes_again(wind, baseline):
    was = bless(changed(wind, CASES["crash"].change))
    assert judge(changed(wind, CASES["crash"].change), was).outcome == "pass"
    assert judge(changed(wind, of(ALL[:1], stop="crashed", reason="KeyError")), was).reasons[0].numbers["trials"] == 1
    hung = bless(changed(wind, hanging(ALL[1])))
    assert judge(changed(wind, hanging(ALL[0])), hung).outcome == "undecided"
    found = changed(wind, hanging(ALL[0], reason=SLOW))
    assert (ARM, ALL[0], 0) in doubtful_trials(found, baseline)
    assert judge(found, baseline, again=again(found, baseline)).reasons[0].code == "hang"
    assert judge(found, baseline, again=again(found, baseline, wind)).outcome == "undecided"
    # A loop that crashes in every trial asked for nothing, so that nobody could say of what it is capable; but the blessed one did.
    judged = judge(changed(wind, of(arm="bare/", stop="crashed", reason="E", scores={"accuracy": 0.0}, calls={})), baseline)
    assert judged.outcome == "regression"
    assert [each.numbers["trials"] for each in judged.reasons if each.code == "crash"] == [24, 24]


def test_a_metric_that_a_side_does_not_know_is_refused_by_name_and_each_reason_has_a_case(wind, baseline):
    cost = asked(baseline, {"cost_usd": 0.1})
    with pytest.raises(Incomparable, match=rf"metric cost_usd: not known for all trials of {ARM} in the baseline"):
        judge(wind, baseline, settings=cost)
    paid = bless(changed(wind, lambda r: replace(r, cost_usd=0.01)))
    with pytest.raises(Incomparable, match=rf"cost_usd: not known for all trials of {ARM} in the run"):
        judge(wind, paid, settings=cost)
    assert {*CASES, "dead"} == {*TEXTS}, "a dead loop is blessed never, and judged by its crashes"
