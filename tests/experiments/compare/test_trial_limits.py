"""Limits to what each trial may spend: they stand wherever a verdict does, and a tighter one that turns it is told."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.cli import running
from whichloop.cli.main import app
from whichloop.cli.render_answer import answer_lines
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.results import PROVISIONAL, Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.several_runs import collect
from whichloop.experiments.compare.tables import comparison_tables, to_markdown
from whichloop.experiments.compare.trial_limits import limits_sentences, suite_limit_sentences, trial_limits
from whichloop.experiments.compare.verdict_old.answer import answer, answer_json
from whichloop.experiments.compare.verdict_old.sentence import DecidingRun, deciding_command
from whichloop.experiments.compare.verdict_old.warned import warned
from whichloop.metrics.arm_info import NO_LIMITS, ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.record import Record
from whichloop.metrics.views import at_budgets
from whichloop.reports.html.page import report_html
from whichloop.runs.config import BudgetConfig, CompareConfig, TrialBudgetConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.new_manifest import versions_of

LIMIT = "at most 2,000 tokens a trial"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish"),
        profiles=("flaky-format",),
        suite="arithmetic(size=8)",
        runs=tmp_path_factory.mktemp("runs"),
        trial_budget=TrialBudgetConfig(tokens=2000),
        mlflow=False,
    )
    made = prepare(config)
    run(made, Unwatched())
    return results(made.folder)


@given(
    st.fixed_dictionaries({}, optional={name: st.integers(1, 10**6) for name in BudgetConfig.model_fields}),
    st.none() | st.integers(1, 50),
    st.sampled_from([60.0, 20.0]),
)
def test_every_limit_that_a_run_set_is_named_and_no_other(budget, steps, timeout):
    config = CompareConfig(trial_budget=TrialBudgetConfig(**budget), max_tool_steps=steps, trial_timeout_s=timeout)
    found = trial_limits(config.model_dump(mode="json"), versions_of(config))
    named = len(budget) + (steps is not None) + (timeout != 60)
    assert (found == NO_LIMITS) == (named == 0)
    assert found.title("Arms") == (f"Arms; {found.words}" if named else "Arms")
    assert bool(found.words) == bool(found.stops)
    assert not named or (" and " in found.words) == (named > 1)
    assert "others" not in found.words


def test_an_imported_run_has_none():
    assert trial_limits({}, {}) == NO_LIMITS


def test_the_limit_stands_in_the_title_before_the_verdict_and_above_every_table(limited):
    assert LIMIT in limited.title
    first, *others = limited.answer.answer_sentences
    stopped = {arm.info.loop: arm.summary.stops.get("budget", 0) for arm in limited.comparison.arms}
    assert sum(stopped.values()) > 0
    assert first.is_basis
    assert first.text.startswith(f"All of this is for {LIMIT}; trials that needed more, and so are not solved, of ")
    assert all(f"{loop} {count or 'none'}" in first.text for loop, count in stopped.items())
    assert not any(each.is_basis for each in others)
    assert all(LIMIT in table.title for table in comparison_tables(limited.comparison, limited.views))
    assert to_markdown("run", limited.comparison).count(LIMIT) > 3
    for width in (80, 10_000):
        assert " ".join(line.plain for line in answer_lines(limited, width)).count(LIMIT) >= 2
    told = json.loads(json.dumps(limited.to_json()))
    assert told["limits"] == told["answer"]["limits"] == LIMIT
    assert told["answer"]["recommendation"] == next(each.in_full for each in others)


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run in which a design ends at the suite's own step limit in many trials, beside one that hardly does."""
    loops = ("bare", "phased", "phased(max_rounds=9)", "repeat_guard(loop=bare(max_steps=3))")
    runs = tmp_path_factory.mktemp("stepped")
    made = prepare(CompareConfig(loops=loops, profiles=("flaky-tools",), tasks=20, runs=runs, mlflow=False))
    run(made, Unwatched())
    return results(made.folder)


def test_loops_that_end_often_at_the_suites_own_limit_are_named_with_the_flag_that_gives_more(stepped):
    stops = {arm.info.variant: Counter(arm.summary.stops) for arm in stepped.comparison.arms}
    ended = {loop: counts["forced"] + counts["max_steps"] for loop, counts in stops.items()}
    assert ended["bare"] < 4
    (said,) = [each for each in stepped.answer.answer_sentences if "suite's limit" in each.text]
    steps = stepped.manifest.suite.max_tool_steps
    at = f"ended at the suite's limit of {steps} tool steps"
    phased, more_rounds = (stepped.comparison.limits.ended[f"{loop}/flaky-tools"] for loop in ("phased", "phased(max_rounds=9)"))
    both = f"phased in {phased} of 20 trials and phased(max_rounds=9) in {more_rounds} of 20 trials"
    assert said.text.startswith(f"{both} {at}: --max-tool-steps {2 * steps} ")  # and not repeat_guard, whose limit was typed
    assert ended["phased"] >= phased >= 4
    assert ended['repeat_guard(loop="bare(max_steps=3)")'] >= 4
    assert said.brief == f"phased and phased(max_rounds=9) often {at}: try --max-tool-steps {2 * steps}"
    assert said.may_be_left_out
    typed = replace(stepped.comparison, limits=trial_limits({"max_tool_steps": steps}, {}, steps))
    assert list(suite_limit_sentences(typed)) == []
    few = replace(stepped.comparison.limits, ended={arm.info.arm: 3 for arm in stepped.comparison.arms})
    assert list(suite_limit_sentences(replace(stepped.comparison, limits=few))) == []


def test_a_run_by_the_former_rule_says_that_its_last_calls_are_not_counted(limited):
    limits = trial_limits(limited.manifest.config, {})
    assert limits.words == f"{LIMIT}, not counting its last call"
    (said,) = limits_sentences(replace(limited.comparison, limits=limits))
    assert f"All of this is for {limits.words}; trials that ended there, of " in said.text
    calls_alone = CompareConfig(trial_budget=TrialBudgetConfig(calls=3)).model_dump(mode="json")
    assert trial_limits(calls_alone, {}).words == "at most 3 model calls a trial"


def test_every_trial_beyond_the_limit_ended_by_it_unsolved_with_its_answer_kept(limited):
    beyond = [record for record in limited.records if record.tokens > 2000]
    assert beyond == [record for record in limited.records if record.stop == "budget"]
    assert {record.accuracy for record in beyond} == {0.0}
    assert any(record.answer is not None for record in beyond)
    assert all(re.fullmatch(r"budget of 2,000 tokens exceeded: [2-9],\d{3}", record.reason) for record in beyond)


def test_the_page_names_it_in_its_title_and_in_every_caption(limited):
    page = report_html(limited)
    captions = page.split("<caption")[1:]
    assert LIMIT in page.partition("</h1>")[0]
    assert captions
    assert all(LIMIT in text.partition("</caption>")[0] for text in captions)


def test_several_runs_name_it_in_the_column_of_the_run(limited):
    (column,) = collect([limited]).columns
    assert collect([limited]).title_of(column) == f"arithmetic, flaky-format, {LIMIT}"


def test_a_limit_is_typed_and_the_command_that_decides_keeps_it(limited, monkeypatch, tmp_path):
    arms = [arm.arm for arm in limited.manifest.arms]
    words = list(deciding_command(limited.manifest, DecidingRun((arms[0], arms[1]), 40, 0.8)))
    assert words[-2:] == ["--trial-budget-tokens", "2000"]
    seen: list[Experiment] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "carry_out", lambda made, *_: seen.append(made))
    app(words[1:], standalone_mode=False)
    assert seen[0].config.trial_budget == TrialBudgetConfig(tokens=2000)


def test_a_limit_that_no_trial_can_meet_is_called_one(record):
    infos = [ArmInfo(f"{loop}/calm", loop, {}, "scripted", "calm", "s") for loop in ("a", "b")]
    limits = trial_limits({"trial_budget": {"tokens": 10}}, versions_of(CompareConfig()))

    def said(solved: float, stop: str) -> tuple[str, ...]:
        records = [
            record(arm=info.arm, task=f"t{task}", scores={"accuracy": solved}, input_tokens=50 + number, output_tokens=0, stop=stop)
            for number, info in enumerate(infos)
            for task in range(20)
        ]
        return answer(replace(compare(records, infos), limits=limits)).sentences

    _, beyond = said(0.0, "budget")
    assert beyond.startswith(
        "Nothing was solved: the limit is below what every loop needs; a, which spent the least, had spent 50 tokens"
    )
    for solved, stop in ((1.0, "budget"), (0.0, "finished")):
        assert not any("below what every loop needs" in line for line in said(solved, stop))


# --- a tighter limit ---

Spent = Mapping[str, tuple[float, int, int]]
"""Loop → share of tasks solved, tokens of a trial, and how many more every second trial costs."""


@pytest.fixture(scope="session")
def spending(record: Callable[..., Record]) -> Callable[[Spent], tuple[Comparison, Any]]:
    def make(loops: Spent, tasks: int = 100) -> tuple[Comparison, Any]:
        infos = [ArmInfo(f"{loop}/calm", loop, {}, "scripted", "calm", "s") for loop in loops]
        records = [
            record(
                arm=f"{loop}/calm",
                task=f"t{task:03}",
                scores={"accuracy": float((task * 37 % tasks) < share * tasks)},
                input_tokens=tokens + more * (task % 2),
                output_tokens=0,
            )
            for loop, (share, tokens, more) in loops.items()
            for task in range(tasks)
        ]
        return compare(records, infos), at_budgets(records, infos)

    return make


def test_a_loop_that_is_ahead_below_a_budget_is_told_with_its_paired_difference(spending):
    comparison, budgets = spending({"dear": (0.9, 500, 0), "thrifty": (0.6, 100, 10)})
    told = [each for each in answer(comparison, budgets).answer_sentences if each.text.startswith("A tighter limit")]
    (only,) = told
    assert only.text.startswith(
        "A tighter limit reverses the order: with at most 110 tokens a trial thrifty is ahead of dear, by 0.600 ["
    )
    assert only.text.endswith("] (what costs more is not solved, as under --trial-budget-tokens)")
    assert answer(comparison).answer_sentences == tuple(
        each for each in answer(comparison, budgets).answer_sentences if each != only
    )


@pytest.mark.parametrize(
    "loops",
    [{"dear": (0.9, 500, 0), "thrifty": (0.02, 100, 10)}, {"same": (0.9, 100, 5), "bad": (0.2, 100, 5)}],
    ids=["not shown", "no cheaper"],
)
def test_nothing_is_told_of_a_tighter_limit_that_no_test_shows(spending, loops):
    comparison, budgets = spending(loops)
    assert not any("tighter limit" in line for line in answer(comparison, budgets).sentences)


def test_a_loop_that_stands_first_anyway_does_not_reverse_the_order(spending):
    """It is the more accurate one without a limit, too, but not shown to be; the cheaper one stands first."""
    comparison, budgets = spending({"steady": (0.92, 400, 0), "often": (0.9, 100, 400), "bad": (0.1, 390, 0)})
    (told,) = (line for line in answer(comparison, budgets).sentences if line.startswith("A tighter limit"))
    assert told.startswith("A tighter limit tells them apart: with at most ")
    assert "steady is ahead of often, by 0." in told


def test_an_unpaired_lead_at_a_budget_is_not_told(spending):
    comparison, budgets = spending({"dear": (0.9, 500, 0), "thrifty": (0.6, 100, 10)})
    open_ones = [
        replace(at, pairs=tuple(replace(pair, verdict=replace(pair.verdict, word="undecided")) for pair in at.pairs))
        for at in budgets
    ]
    assert answer(comparison, open_ones).answer_sentences == answer(comparison).answer_sentences


def test_how_many_tasks_a_run_has_seen_is_told_where_some_have_no_trial(limited, tmp_path):
    some = tuple(record for record in limited.records if record.task != limited.records[0].task)
    assert "incomplete: 14 of 16 trials, 7 of 8 tasks seen" in Results(Path("x"), limited.manifest, some, limited.comparison).title
    one_arm = tuple(record for record in limited.records if record.arm == limited.records[0].arm)
    assert Results(Path("x"), limited.manifest, one_arm, limited.comparison).title.endswith("incomplete: 8 of 16 trials")


def test_an_incomplete_run_says_that_its_verdict_is_provisional_before_it(limited):
    some = tuple(record for record in limited.records if record.task != limited.records[0].task)
    found = Results(Path("x"), limited.manifest, some, limited.comparison)
    first, *others = found.answer.sentences
    assert first == PROVISIONAL.text
    assert tuple(others) == limited.answer.sentences
    assert answer_json(found.comparison, found.answer)["sentences"][0] == PROVISIONAL.text
    assert PROVISIONAL.brief in " ".join(line.plain for line in answer_lines(found, 80))


def test_an_incomplete_run_proposes_no_run_but_itself(stepped):
    some = tuple(record for record in stepped.records if record.task != stepped.records[0].task)
    found = Results(Path("x"), stepped.manifest, some, stepped.comparison)
    assert any(each.decides is not None for each in stepped.answer.answer_sentences)
    assert not any(each.decides is not None for each in found.answer.answer_sentences)


@pytest.mark.parametrize("others", [("bare", "finish"), ("bare",)])
def test_trials_that_ran_out_of_time_are_told_once_even_of_one_loop(limited, others):
    infos = [arm.info for arm in limited.comparison.arms if arm.info.loop in others]
    records = [
        replace(record, stop="timeout", scores={"accuracy": 0.0}) if record.arm == infos[0].arm and number < 3 else record
        for number, record in enumerate(record for record in limited.records if record.arm in {info.arm for info in infos})
    ]
    late = sum(record.stop == "timeout" for record in records)
    assert late > 0
    by_default, own = compare(records, infos), trial_limits({"trial_timeout_s": 0.5}, {})
    of_own = replace(by_default, limits=own)
    assert [line for line in warned(by_default) if "time" in line] == [
        f"Out of time, and so not solved: {late} of the 8 trials of {infos[0].arm}"
    ]
    assert not any("time" in line for line in [*warned(of_own), *answer(by_default).sentences])
    assert answer(of_own).sentences[0].startswith("All of this is for at most 0.5 s a trial; trials that needed more")


def test_every_task_has_its_first_trial_before_any_has_a_second(tmp_path):
    """So that a budget of the run which ends early leaves no task unseen while others have repeats."""
    made = prepare(CompareConfig(loops=("bare", "finish"), suite="arithmetic(size=6)", repeats=3, runs=tmp_path, mlflow=False))
    trials = list(made.missing())
    firsts = [trial for trial in trials if trial.repeat == 0]
    assert trials[: len(firsts)] == firsts
    assert {trial.task.id for trial in firsts} == {task.id for task in made.tasks}
