"""A run against a baseline: each outcome, each refusal, and the tasks that changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.gate.conftest import ALL, arm_of, changed_suite, failing, task
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, Incomparable, bless, headline, judge, read_baseline, write_baseline
from whichloop.experiments.gate.data.baseline import to_text
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record

# --- outcomes ---


@pytest.mark.slow  # as test_rerun.py has a run again by the baseline's own configuration
def test_the_same_again_is_identical(baseline, fresh):
    again: Results = fresh(repeats=2)
    judged = judge(again, baseline)
    assert judged.outcome == "identical"
    assert (judged.tasks, judged.same_result, judged.reasons, judged.notes) == ((), 0, (), ())
    assert all(arm.identical for arm in judged.arms)
    assert {line.outcome for line in judged.lines} == {"identical"}


def test_the_order_of_trials_changes_nothing(wind, baseline, altered):
    found = altered(failing(*ALL[:3]))
    backwards = judge(replace(found, records=found.records[::-1]), baseline)
    assert backwards.to_json() == judge(found, baseline).to_json()


def test_a_drop_is_a_regression_and_its_tasks_are_told(altered, baseline):
    judged = judge(altered(failing(*ALL[:8])), baseline)
    assert judged.outcome == "regression"
    assert [line.arm for line in judged.lines if line.outcome == "regression"] == ["bare/clean"]
    assert [(change.arm, change.task, change.became) for change in judged.tasks] == [
        ("bare/clean", name, "worse") for name in ALL[:8]
    ]
    assert judged.tasks[0].was.mean == 1.0
    assert judged.tasks[0].now.mean == 0.0
    assert judged.tasks[0].command.endswith(f"bare/clean/{task(1)}/0")
    assert sum(judged.causes.values()) == 8


def test_a_little_is_undecided_with_what_it_would_take(altered, baseline):
    judged = judge(altered(failing(task(1))), baseline)
    assert judged.outcome == "undecided"
    (line,) = [line for line in judged.lines if line.outcome == "undecided"]
    assert line.outlook is not None
    assert line.outlook.fewer.tasks > 12


def test_within_a_wide_margin_it_passes(altered, baseline):
    assert judge(altered(failing(task(1))), baseline, metrics={"accuracy": 0.5}).outcome == "pass"


def test_an_arm_that_is_not_the_same_is_judged_beside_those_that_are(altered, baseline):
    judged = judge(altered(failing(task(1))), baseline)
    assert {arm.arm: arm.identical for arm in judged.arms} == {
        "bare/clean": False,
        "finish/clean": True,
        "bare/flaky-tools": True,
        "finish/flaky-tools": True,
    }


def test_more_tokens_for_the_same_answers_are_another_outcome(altered, baseline):
    """They are judged where that is asked for, and told in any case."""
    found = altered(lambda r: replace(r, input_tokens=2 * r.input_tokens))
    judged = judge(found, baseline)
    assert judged.outcome == "unchanged"  # 12 tasks say nothing of 2 points elsewhere, and it is not the same
    assert (judged.tasks, judged.same_result, judged.differs_in) == ((), 96, ("tokens",))
    dice, (unjudged,) = judged.notes, judged.details
    assert unjudged.startswith("Not judged: tokens ×1.96 (")
    assert any(line.startswith("Tokens ×1.96 (") and line.endswith(", not judged.") for line in further_lines(judged))
    *first, last = [arm.arm for arm in judged.arms]
    blessed = f"{', '.join(first)} and {last} are the loops of the baseline (code, options and settings)"
    assert [note.partition(":")[0] for note in dice] == [f"{blessed}, and yet 96 of 96 trials differ"]
    dear = judge(found, baseline, metrics={"accuracy": 0.5, "tokens": 0.1})
    assert (dear.outcome, [note for note in dear.details if note.startswith("Not judged")]) == ("regression", [])
    assert {line.metric: line.outcome for line in arm_of(dear, "bare/clean").lines} == {"accuracy": "pass", "tokens": "regression"}
    assert judge(found, baseline, metrics={"accuracy": 0.5, "tokens": 1.1}).outcome == "pass"


def test_the_same_scores_are_unchanged_only_where_nothing_is_left_to_chance(altered, baseline, ran):
    """Else they are a sample, and a dozen tasks are too few of one."""

    def dearer(record: Record) -> Record:
        return replace(record, input_tokens=record.input_tokens + 1)

    assert judge(altered(dearer), baseline).outcome == "unchanged"
    assert judge(ran(repeats=2, seed=5), baseline).outcome == "undecided"
    arms = {name: arm.model_copy(update={"model": "openai/m"}) for name, arm in baseline.arms.items()}
    sampled = baseline.model_copy(update={"arms": arms})
    assert judge(altered(dearer), sampled).outcome == "undecided"


def test_an_unchanged_score_excuses_no_other_metric(altered, baseline):
    """Of each metric every trial has to have the value that it had."""
    found = altered(lambda r: replace(r, input_tokens=r.input_tokens + 3 * (r.task == task(1))))
    lines = arm_of(judge(found, baseline, metrics={"tokens": 0.0, "steps": 0.0}), "bare/clean").lines
    assert {line.metric: line.outcome for line in lines} == {"accuracy": "unchanged", "steps": "unchanged", "tokens": "undecided"}


def test_what_is_judged_by_a_clock_is_no_longer_identical_when_the_clock_differs(altered, baseline):
    slower = altered(lambda r: replace(r, seconds=r.seconds + 1))
    assert judge(slower, baseline).outcome == "identical"
    assert judge(slower, baseline, metrics={"seconds": 0.1}).outcome == "regression"


def test_accuracy_is_judged_whatever_else_is(altered, baseline):
    judged = judge(altered(failing(*ALL)), baseline, metrics={"steps": 0.5})
    assert judged.outcome == "regression"
    assert {line.metric for line in judged.lines} == {"accuracy", "steps"}


def test_json_is_plain_and_its_names_stay(altered, baseline, tmp_path):
    made = judge(altered(failing(task(1))), baseline, path=tmp_path / "b.json").to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert set(made) == {
        "outcome", "reasons", "run", "baseline", "alpha", "paired", "arms", "tasks", "causes", "same_result", "differs_in", "notes",
        "stops", "altered", "other_answers", "fails_for_answers", "common_tasks", "bless", "counted", "word", "unrun_lines",
        "shared_repeats",
            "worst_trials", "growths",
    }  # fmt: skip
    alone = {"stop_alone", "crash_alone", "hang_alone", "limits", "limit_alone", "hangs", "short_of_faults", "unjudged", "claims"}
    assert set(made["arms"][0]) == {"arm", "baseline_arm", "identical", "trials", "scored", "metrics"} | alone
    assert set(made["arms"][0]["metrics"][0]) == {
        "metric", "outcome", "baseline", "run", "effect", "ratio", "margin", "tasks", "units", "p_worse", "p_holm", "p_beyond",
        "worse", "better", "lost", "outlook", "typical", "more_repeats",
    }  # fmt: skip
    assert set(made["tasks"][0]) == {
        "arm",
        "task",
        "became",
        "was",
        "now",
        "repeat",
        "step",
        "parts_at",
        "cause",
        "detail",
        "command",
    }


# --- other seeds, repeats and loops ---


def test_another_seed_pairs_tasks_and_not_trials(baseline, ran):
    judged = judge(ran(repeats=2, seed=5), baseline)
    assert not judged.paired
    assert judged.outcome != "identical"
    assert any(note.startswith("Another seed than in the baseline, 5, not 0") for note in judged.details)
    clean = arm_of(judged, "bare/clean").lines[0]
    assert (clean.effect.value, clean.tasks) == (0.0, 12)  # nothing strikes there
    assert judged.same_result == 0


def test_where_trials_do_not_pair_up_tasks_are_told_by_their_means(baseline, altered, wind):
    found = altered(failing(task(1)), seed=9)
    judged = judge(found, baseline)
    assert [(change.task, change.became, change.repeat) for change in judged.tasks] == [(task(1), "worse", 0)]


LIMIT = "at most 2,000 tokens a trial"


def test_another_limit_of_a_trial_or_another_rule_for_it_is_refused(altered, wind, baseline):
    config, versions = wind.manifest.config | {"trial_budget": {"tokens": 2000}}, wind.manifest.versions
    limited = altered(config=config, versions=versions | {"trial_limits": 2})
    former = altered(config=config)
    as_limited, as_former = bless(limited), bless(former)
    for run, held_against, problem in (
        (limited, baseline, f"{LIMIT}, not none"),
        (limited, as_former, f"{LIMIT}, not {LIMIT}, not counting its last call"),
        (former, as_limited, f"{LIMIT}, not counting its last call, not {LIMIT}"),
    ):
        with pytest.raises(Incomparable, match=f"another limit of a trial than in the baseline: {problem}; where that is meant"):
            judge(run, held_against)
    assert judge(limited, as_limited).outcome == "identical"
    assert judge(former, as_former).outcome == "identical"


def test_a_single_loop_under_the_same_conditions_is_the_counterpart(ran):
    was = bless(ran(loops=("finish",)))
    now = ran(loops=("finish(parse_retries=0)",))
    judged = judge(now, was)
    assert [(arm.arm, arm.baseline_arm) for arm in judged.arms] == [
        ("finish(parse_retries=0)/clean", "finish/clean"),
        ("finish(parse_retries=0)/flaky-tools", "finish/flaky-tools"),
    ]
    assert "finish(parse_retries=0)/clean is held against finish/clean of the baseline." in judged.details


def test_an_arm_that_the_run_lacks_is_refused_with_what_the_run_has(baseline, ran):
    lacking = ran(loops=("bare", "react_extract"))
    refused(lacking, baseline, "the run has no arm for finish/clean and finish/flaky-tools of the baseline; it has bare/clean, ")
    refused(
        lacking,
        baseline,
        "run every loop of the baseline, as gate does without --loop, or bless a run of bare and react_extract alone",
    )
    other = ran(profiles=("clean", "flaky-format"))
    refused(other, baseline, "another profile than in the baseline: clean, flaky-format, not flaky-tools")


def test_an_arm_that_the_baseline_lacks_is_no_matter(wind, ran):
    judged = judge(wind, bless(ran(loops=("bare",), repeats=2)))
    assert judged.outcome == "identical"
    assert "Not in the baseline, and not judged: finish/clean, finish/flaky-tools." in judged.notes


def test_a_changed_loop_that_passes_is_told_with_the_faults_that_it_never_met(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-tools",)))
    judged = judge(ran(loops=("finish(parse_retries=0)",), profiles=("flaky-tools",)), was)
    assert judged.outcome == "identical"
    assert "finish: parse_retries is 0 now, 2 by default in the baseline." in judged.notes
    (unseen,) = [step.say for step in next_steps(judged)]
    assert unseen.startswith("In this run no reply was made unreadable and no provider failed; a baseline that is blessed with ")
    assert "--profile flaky-format and --profile provider-trouble, too" in unseen


def test_faults_that_a_changed_loop_met_are_not_missed(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-format", "flaky-tools")))
    now = ran(loops=("finish(list_tools_in_error=true)",), profiles=("flaky-format", "flaky-tools"))
    steps = [step.say for step in next_steps(judge(now, was))]
    assert [said.partition(";")[0] for said in steps] == ["In this run no provider failed"]


# --- refusals ---


def refused(found: Results, baseline: Baseline, why: str, **asked: Any) -> None:
    with pytest.raises(Incomparable) as said:
        judge(found, baseline, **asked)
    assert why in str(said.value)
    assert "\n" not in str(said.value)


def test_another_suite_is_refused_with_what_is_other(wind, baseline):
    refused(wind, changed_suite(baseline, name="events"), "another suite than in the baseline: arithmetic, not events")
    refused(wind, changed_suite(baseline, version="0"), "suite arithmetic has changed since the baseline (version 2, not 0): ")
    refused(wind, changed_suite(baseline, max_tool_steps=3), "another step limit than in the baseline: 11, not 3")


def test_another_profile_or_policy_is_refused(wind, baseline):
    profiles = {**baseline.profiles, "flaky-tools": "f" * 64}
    refused(wind, baseline.model_copy(update={"profiles": profiles}), "another digest of profile flaky-tools")
    versions = {**baseline.versions, "policy_and_profiles": 1}
    refused(wind, baseline.model_copy(update={"versions": versions}), "another version of policy_and_profiles")


def test_a_changed_profile_from_a_file_is_refused_by_the_fields_that_changed(fresh, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\npatience = 2\nrates = {"wire.empty" = 0.1}\n', "utf-8")
    write_baseline(tmp_path / "b.json", bless(fresh(loops=("bare",), profiles=(str(file),))))
    was = read_baseline(tmp_path / "b.json")
    file.write_text('name = "mine"\ndescription = "new"\nrates = {"wire.empty" = 0.2, "tool.hangs" = 0.1}\n', "utf-8")
    told = "profile mine is another than in the baseline: patience 3, not 2, rates.tool.hangs 0.1, not none and "
    refused(fresh(loops=("bare",), profiles=(str(file),)), was, f"{told}rates.wire.empty 0.2, not 0.1; where that is meant, ")
    assert "own_profiles" not in to_text(bless(fresh(loops=("bare",), profiles=("clean",))))


def test_other_tasks_are_refused(wind, baseline, ran):
    fewer = ran(tasks=6)
    refused(fewer, baseline, "other tasks: 6 of the baseline are left out, such as arithmetic-0007")
    refused(wind, bless(fewer), "other tasks: 6 are not in the baseline, such as arithmetic-0007")


def test_a_metric_that_a_side_does_not_know_is_refused_by_name(wind, baseline, altered):
    refused(wind, baseline, "metric cost_usd: not in the baseline, which knows accuracy, steps", metrics={"cost_usd": 0.1})
    paid = bless(altered(lambda r: replace(r, cost_usd=0.01)))
    refused(wind, paid, "metric cost_usd: known for 0 of 24 trials of bare/clean in the run", metrics={"cost_usd": 0.1})
    some = altered(lambda r: replace(r, cost_usd=0.01 if r.task != task(1) else None))
    refused(some, paid, "metric cost_usd: known for 22 of 24 trials of bare/clean in the run", metrics={"cost_usd": 0.1})


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"metrics": {"speed": 0.1}}, "unknown metric 'speed'"),
        ({"metrics": {"steps": -1.0}}, "metric steps: a margin of 0 or more is needed"),
        ({"alpha": 0.7}, "alpha: a level above 0 and below 0.5 is needed, got 0.7"),
    ],
)
def test_bad_arguments_are_refused(wind, baseline, asked, why):
    with pytest.raises(ValueError, match=why):
        judge(wind, baseline, **asked)


# --- what changed ---


def test_tasks_that_got_better_or_stopped_otherwise_are_told_after_those_that_got_worse(altered, baseline):
    def change(record: Record) -> Record:
        if record.arm != "bare/clean":
            return record
        if record.task == task(2):
            return replace(record, stop="forced")
        return replace(record, scores={"accuracy": 0.0}) if record.task == task(5) and record.repeat == 1 else record

    was = bless(altered(failing(task(9))))
    judged = judge(altered(change), was)
    assert [(item.task, item.became) for item in judged.tasks] == [(task(5), "worse"), (task(9), "better"), (task(2), "other")]
    assert judged.tasks[0].repeat == 1
    assert judged.tasks[0].cause is not None
    assert [item.cause for item in judged.tasks[1:]] == [None, None]


def test_the_first_difference_is_where_the_courses_part(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-format",)))
    judged = judge(ran(loops=("finish(parse_retries=0)",), profiles=("flaky-format",)), was)
    lost = [change for change in judged.tasks if change.became == "worse"]
    assert lost
    assert {change.cause for change in lost} == {"parse"}
    assert all(change.step is not None and change.detail for change in lost)
    assert judged.causes == {"parse": len(lost)}


def test_without_a_trace_there_is_no_cause(altered, baseline):
    def change(record: Record) -> Record:
        return replace(failing(task(1))(record), trace_at=None)

    (changed,) = judge(altered(change), baseline).tasks
    assert (changed.step, changed.parts_at, changed.cause, changed.detail) == (None, None, None, "")


def test_code_of_ones_own_behind_the_suite_that_changed_is_noted(wind, baseline):
    judged = judge(wind, changed_suite(baseline, code="f" * 64))
    assert judged.outcome == "identical"
    assert judged.notes[0].startswith("Changed since the baseline: the code of your own that the suite is made of;")
    assert headline(judged).startswith("identical: behaviour unchanged")  # whatever changed, it did no harm


def test_a_regression_names_the_options_that_changed_too(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-format",)))
    judged = judge(ran(loops=("finish(parse_retries=0)",), profiles=("flaky-format",)), was, metrics={"accuracy": 0.0})
    assert judged.outcome not in ("identical", "pass")
    assert "finish: parse_retries is 0 now, 2 by default in the baseline." in judged.notes


def test_a_long_value_of_an_option_is_shortened(wind, baseline):
    long = baseline.arms["bare/clean"].model_copy(update={"options": {"words": "x" * 350}})
    judged = judge(wind, baseline.model_copy(update={"arms": {**baseline.arms, "bare/clean": long}}))
    (said,) = [note for note in judged.notes if " in the baseline." in note and "words is" in note]
    assert "xxx…xxx" in said
    assert len(said) < 200


def test_the_recipe_of_a_gate_that_leaves_much_open_ends_in_the_gate_with_the_same_loops_and_rules(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-tools",)))
    now = ran(loops=("finish(max_steps=5)",), profiles=("flaky-tools",))
    judged = judge(now, was, metrics={"accuracy": 0.01, "tokens": 0.1}, alpha=0.01, path=Path("b.json"))
    assert judged.outcome == "worse here"
    recipe = [line for line in paragraphs(judged) if line.startswith("whichloop ")]
    runs = f"--runs {now.folder.parent}"
    assert recipe[-2:] == [
        f"whichloop bless latest {runs} --output b.json",
        "whichloop gate --baseline b.json --loop 'finish(max_steps=5)' --margin 0.01 --metric tokens=0.1 --alpha 0.01 " + runs,
    ]
