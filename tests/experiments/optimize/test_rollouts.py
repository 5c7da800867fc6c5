"""Rollouts are trials: asked once, kept, counted against the budget, the same again from the log."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.parallelizer import ParallelExecutor

from tests.sealing import reseal
from whichloop.dspy_seam.program import LoopProgram, ProgramResult, SampledPrediction
from whichloop.experiments.optimize.compiling import BudgetSpent
from whichloop.experiments.optimize.rollouts import Rollouts, RunStopped
from whichloop.protocol import (
    Model,
    Observer,
    Optimizable,
    Outcome,
    Program,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    WrappedModel,
)
from whichloop.runs.engine.runner import FIRST_FAILURES
from whichloop.runs.run_state import MAX_ATTEMPTS
from whichloop.runs.store.files import RunError
from whichloop.runs.trial import trial_parts
from whichloop.runs.trial_models import TrialModel, model_for_trial

Make = Callable[..., Rollouts]


def ask(rollouts: Rollouts, task: int = 0, draw: int = 0, changed: str = "") -> ProgramResult:
    """One rollout of the design, its instructions changed where a text is given."""
    inputs = {"query": "", "task": [*rollouts.tasks][task]}
    return rollouts(rollouts.arm.loop, program_of(rollouts, changed), inputs, SampledPrediction(draw))


def program_of(rollouts: Rollouts, changed: str = "") -> Program:
    loop = rollouts.arm.loop
    assert isinstance(loop, Optimizable)
    program = loop.predictors
    return {name: replace(prompt, instructions=changed) for name, prompt in program.items()} if changed else program


def test_a_rollout_is_a_scored_trial_with_its_requests_as_demonstrations(rollouts_of: Make) -> None:
    rollouts = rollouts_of()
    ran = ask(rollouts)
    assert ran.fields["score"] == 1.0
    assert ran.fields["status"] == "scored"
    assert ran.fields["feedback"]
    assert {call.predictor for call in ran.calls} == {"decide"}
    assert "[r:" not in json.dumps([[dict(call.inputs), dict(call.outputs)] for call in ran.calls])
    assert rollouts.search.trials == 1
    assert rollouts.search.calls == len(ran.calls) == rollouts.setting.meter.calls


def test_what_is_asked_again_costs_nothing(rollouts_of: Make, watcher: Any) -> None:
    rollouts = rollouts_of(watcher=watcher)
    first = ask(rollouts)
    assert ask(rollouts) == first
    assert rollouts.search.trials == 1
    ask(rollouts, draw=1)
    ask(rollouts, task=1)
    ask(rollouts, changed="Other words.")
    assert rollouts.search.trials == 4
    assert len(watcher.rollouts()) == 4
    assert [item.number for item in rollouts.candidates.values()] == [0, 1]


def test_a_program_counts_once_it_has_instructions_of_its_own_or_is_scored_on_dev_or_all_of_train(
    rollouts_of: Make, watcher: Any
) -> None:
    """Tasks 0 and 2 are of dev, 1 and 3 of train."""
    rollouts = rollouts_of(watcher=watcher)

    def with_demo(number: int, *tasks: int) -> None:
        demo = {"query": f"Twice {number}?", "reply": "{}"}
        program = {name: replace(prompt, demos=(demo,)) for name, prompt in program_of(rollouts).items()}
        for task in tasks:
            rollouts(rollouts.arm.loop, program, {"query": "", "task": [*rollouts.tasks][task]}, SampledPrediction(0))

    def tried() -> tuple[int, list[int]]:
        counted = sum(candidate.counts for candidate in rollouts.candidates.values())
        return counted, [what for kind, what in watcher.told if kind == "tried"]

    ask(rollouts)
    with_demo(1, 1)
    assert tried() == (1, [])
    ask(rollouts, task=1, changed="Other words.")
    assert tried() == (2, [2])
    with_demo(1, 0)
    assert tried() == (3, [2, 1])
    with_demo(3, 1, 3)
    with_demo(4, 3)
    assert tried() == (4, [2, 1, 3])
    program = [*rollouts.candidates.values()][4].program
    assert rollouts.candidate(program, is_whole=True).counts
    assert rollouts.candidate(program).counts
    assert tried() == (5, [2, 1, 3, 4])
    assert [item.number for item in rollouts.candidates.values()] == [0, 1, 2, 3, 4]


def search(rollouts: Rollouts) -> tuple[list[ProgramResult], str]:
    """What a fixed search is given until its budget ends it, and why that was."""
    given = []
    try:
        for changed in ("", "Other words.", "Still other words."):
            given += [ask(rollouts, task, changed=changed) for task in range(4)]
    except BudgetSpent as spent:
        return given, str(spent)
    return given, ""


@dataclass(frozen=True)
class Refusing:
    """Stands where models are handed out, and notes down who asks."""

    asked: list[Any]

    def model(self, *args: Any) -> Any:
        self.asked.append(args)
        raise AssertionError("a model was asked")


def test_a_resumed_search_asks_no_model_for_what_it_has(rollouts_of: Make) -> None:
    first = rollouts_of()
    given = search(first)
    again = rollouts_of()
    asked: list[Any] = []
    again.setting = replace(again.setting, trial_models=Refusing(asked))  # type: ignore[arg-type]
    assert search(again) == given
    assert asked == []
    assert (again.search, again.candidates) == (first.search, first.candidates)


@pytest.mark.parametrize("calls", [1, 7, 20, 30])
def test_a_budget_is_never_exceeded_and_a_resumed_search_stops_where_it_stopped(rollouts_of: Make, calls: int) -> None:
    first = rollouts_of(calls=calls)
    given = search(first)
    assert given[1] == f"budget of {calls} model calls used up"
    assert first.search.calls <= first.setting.meter.calls == calls
    assert search(rollouts_of(calls=calls)) == given


def test_a_soft_budget_gives_zeros_that_are_no_scores(rollouts_of: Make) -> None:
    rollouts = rollouts_of(calls=7, is_soft=True)
    given, why = search(rollouts)
    assert (len(given), why) == (12, "")
    spent = [ran for ran in given if ran.fields["status"] == "spent"]
    assert spent
    assert {ran.fields["score"] for ran in spent} == {0.0}
    assert rollouts.search.trials == 12 - len(spent)
    assert sum(len(item.dev) + len(item.train) for item in rollouts.candidates.values()) == rollouts.search.trials


def test_what_goes_beyond_the_budget_for_dev_scores_is_counted_apart(rollouts_of: Make) -> None:
    rollouts = rollouts_of(calls=7)
    search(rollouts)
    before = rollouts.search
    scores = rollouts.dev_scores(rollouts.arm.loop, program_of(rollouts))
    assert scores.keys() == {name for name, (split, _) in rollouts.tasks.items() if split == "dev"}
    assert rollouts.search == before
    assert rollouts.evaluation.trials > 0


def test_a_search_that_goes_on_never_has_what_was_asked_beyond_its_budget(rollouts_of: Make) -> None:
    """Killed while the dev scores were completed, it would else spend more than its budget, and end otherwise."""

    def ended(rollouts: Rollouts) -> Any:
        given = search(rollouts)
        scores = rollouts.dev_scores(rollouts.arm.loop, program_of(rollouts))
        return given, scores, rollouts.search, rollouts.evaluation, rollouts.best()

    first = ended(rollouts_of(calls=7))
    assert first[3].trials > 0
    assert ended(rollouts_of(calls=7)) == first


class Down:
    """Stands where models are made, and makes none for so many trials."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def __call__(self, *args: Any, **watching: Any) -> TrialModel:
        self.left -= 1
        if self.left >= 0:
            raise OSError("no route to the provider")
        return model_for_trial(*args, **watching)


def test_a_provider_that_is_down_stops_the_run_and_is_asked_again_when_it_goes_on(
    rollouts_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rollouts_of()
    ask(first)
    with monkeypatch.context() as patched:
        patched.setattr(trial_parts, "model_for_trial", Down(10**6))
        with pytest.raises(RunStopped, match=f"{FIRST_FAILURES} rollouts in a row failed, the last because of OSError: no route"):
            [ask(first, draw=draw) for draw in range(1, 100)]
    assert first.errored == FIRST_FAILURES
    again = rollouts_of()
    assert ask(again, draw=1).fields["status"] == "scored"
    assert again.errored == 0


class Breaking:
    """Makes a model that breaks at its second request, then sound ones."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, *args: Any, **watching: Any) -> TrialModel:
        made = model_for_trial(*args, **watching)
        if not self.broken:
            made.metered.model = BreaksOff(made.metered.model)
        self.broken = True
        return made


class BreaksOff(WrappedModel):
    asked = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked == 2:
            raise ProviderError("gone", "connection")
        return await self.model.complete(request)


def test_all_attempts_at_a_rollout_are_spent(rollouts_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown, and what a resumed search is charged, is what the meter counted."""
    first = rollouts_of()
    monkeypatch.setattr(trial_parts, "model_for_trial", Breaking())
    calls = ask(first).calls
    assert first.search.calls == first.setting.meter.calls == len(calls) + 2
    again = rollouts_of()
    ask(again)
    assert (again.setting.meter.calls, again.setting.meter.tokens) == (first.setting.meter.calls, first.setting.meter.tokens)
    assert again.search == first.search


def test_errored_rollouts_are_no_dev_scores(rollouts_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rollouts = rollouts_of()
    monkeypatch.setattr(trial_parts, "model_for_trial", Down(MAX_ATTEMPTS))
    assert ask(rollouts).fields["status"] == "errored"
    scores = rollouts.dev_scores(rollouts.arm.loop, program_of(rollouts))
    assert set(scores.values()) == {1.0}
    assert len(scores) == 1


def test_a_test_task_is_refused(rollouts_of: Make) -> None:
    rollouts = rollouts_of()
    with pytest.raises(RunStopped, match="'arithmetic-test' which is in neither train nor dev".replace(" which", ", which")):
        rollouts(rollouts.arm.loop, program_of(rollouts), {"query": "", "task": "arithmetic-test"}, SampledPrediction())


def test_the_best_is_the_best_on_dev_and_of_equals_the_first(rollouts_of: Make) -> None:
    rollouts = rollouts_of()
    search(rollouts)
    assert rollouts.best().number == 0
    worse, better = [*rollouts.candidates.values()][:2]
    rollouts.candidates[worse.digest] = replace(worse, dev=dict.fromkeys(worse.dev, 0.0))
    assert rollouts.best().number == better.number
    rollouts.candidates[better.digest] = replace(better, dev={})
    assert rollouts.best().number == 2


class Slow:
    """A loop that takes its time, and counts how often it runs."""

    name = "slow"
    stops = frozenset({StopReason.FINISHED})

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.runs = 0

    @property
    def predictors(self) -> Program:
        return {}

    def with_predictors(self, program: Program) -> Slow:
        return self

    def with_step_limit(self, tool_steps: int) -> Slow:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = Observer()) -> Outcome:  # noqa: B008
        self.runs += 1
        await asyncio.sleep(self.seconds)
        return Outcome("slow", StopReason.FINISHED, 0)


def test_rollouts_of_many_threads_are_run_once_each(rollouts_of: Make) -> None:
    rollouts = rollouts_of()
    slow = Slow(0.05)
    inputs = [{"query": "", "task": name} for name in rollouts.tasks]
    with ThreadPoolExecutor(16) as pool:
        done = [pool.submit(rollouts, slow, {}, inputs[place % 4], SampledPrediction()) for place in range(64)]
        assert len({future.result().fields["answer"] for future in done}) == 1
    assert slow.runs == 4


@pytest.mark.thorough
def test_a_straggler_that_dspy_submits_again_does_not_run_again(rollouts_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executor gives a task up after 120 s and submits it once more, again and again: here after a tenth of a second."""
    made = ParallelExecutor.__init__
    monkeypatch.setattr(ParallelExecutor, "__init__", lambda self, *args, **named: made(self, *args, **{**named, "timeout": 0.1}))
    rollouts = rollouts_of()
    slow = Slow(2.5)
    program = LoopProgram(slow, runner=rollouts)
    asked: list[str] = []

    class Counted(dspy.Module):
        def forward(self, **inputs: Any) -> Any:
            asked.append(inputs["task"])
            return program(**inputs)

    examples = [dspy.Example(query="", task=name).with_inputs("query", "task") for name in [*rollouts.tasks][:2]]
    found = dspy.Evaluate(devset=examples, metric=lambda example, pred: pred.score, num_threads=4, display_progress=False)(
        Counted()
    )
    assert found.score == 0.0
    assert len(asked) > 2  # else the executor no longer does it, and this test is of no use
    assert slow.runs == 2


def test_leaving_ends_what_still_runs(rollouts_of: Make) -> None:
    """Threads of an optimizer that wait for a rollout when the run is left, with Ctrl-C, are let go."""
    rollouts = rollouts_of()
    said: list[str] = []

    def wait() -> None:
        try:
            rollouts(Slow(60), {}, {"query": "", "task": next(iter(rollouts.tasks))}, SampledPrediction())
        except RunStopped as stopped:
            said.append(str(stopped))

    thread = threading.Thread(target=wait)
    thread.start()
    while not rollouts._futures:
        time.sleep(0.01)
    rollouts.background.__exit__(None, None, None)
    thread.join(10)
    assert said == ["interrupted"]


def test_a_log_that_is_none_is_named(rollouts_of: Make, tmp_path: Path) -> None:
    (tmp_path / "bare.jsonl").write_text('{"key": ["a", "b", 0, null]}\n', encoding="utf-8")
    reseal(tmp_path / "bare.jsonl")
    with pytest.raises(RunError, match=r"bare\.jsonl:1: not a rollout: KeyError"):
        rollouts_of()
