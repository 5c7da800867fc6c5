"""Rollouts are trials, and an optimizer's own requests: asked once, kept, counted against the budget, the same from the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.dspy_seam.program import ProgramResult, SampledPrediction
from whichloop.experiments.optimize.candidates import Candidate, JsonLinesLog, log_digest, read_log
from whichloop.experiments.optimize.compiling import SearchOver
from whichloop.experiments.optimize.rollouts import Background, Proposals, Rollouts, RunStopped
from whichloop.models.metering import Budget, Meter
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import Message, Model, Optimizable, Program, Reply, Request, run_sync
from whichloop.runs.engine.runner import FIRST_FAILURES
from whichloop.runs.store.files import RunError
from whichloop.runs.trial import trial as trial_module
from whichloop.runs.trial_models import model_for_trial

Make = Callable[..., Rollouts]
MakeProposals = Callable[..., Proposals]


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


def search(rollouts: Rollouts) -> tuple[list[ProgramResult], str]:
    """What a fixed search is given until its budget ends it, and why that was."""
    given = []
    try:
        for changed in ("", "Other words.", "Still other words."):
            given += [ask(rollouts, task, changed=changed) for task in range(4)]
    except SearchOver as spent:
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


def test_what_a_resumed_search_has_in_its_log_is_counted_in_its_budget_of_calls_and_of_tokens(rollouts_of: Make) -> None:
    first = rollouts_of()
    search(first)
    spent = first.setting.meter
    again = rollouts_of(tokens=spent.tokens)
    assert search(again)[1] == ""
    assert (again.setting.meter.calls, again.setting.meter.tokens) == (spent.calls, spent.tokens)
    with pytest.raises(SearchOver, match=f"budget of {spent.tokens} tokens used up"):
        ask(again, changed="New words.")


@pytest.mark.parametrize("calls", [1, 20])
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


def test_of_programs_that_were_scored_in_part_the_best_has_the_largest_lead_over_the_own_one(rollouts_of: Make) -> None:
    rollouts = rollouts_of()
    a, b = (name for name, (split, _) in rollouts.tasks.items() if split == "train")
    for number, scores in enumerate(({a: 1.0, b: 0.0}, {a: 0.5}, {b: 1.0})):
        rollouts.candidates[str(number)] = Candidate(number, str(number), {}, scores, {})
    assert rollouts.best().number == 2


class Down:
    """Stands where models are made, and makes none for so many trials."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def __call__(self, *args: Any, **watching: Any) -> Any:
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
        patched.setattr(trial_module, "model_for_trial", Down(10**6))
        with pytest.raises(RunStopped, match=f"{FIRST_FAILURES} rollouts in a row failed, the last because of OSError: no route"):
            [ask(first, draw=draw) for draw in range(1, 100)]
    assert first.errored == FIRST_FAILURES
    again = rollouts_of()
    assert ask(again, draw=1).fields["status"] == "scored"
    assert again.errored == 0


ASKS = "Your output fields are:\n1. `proposed_instruction` (str):\n[[ ## proposed_instruction ## ]]\n"


def improving(number: int) -> Request:
    return Request((Message("system", ASKS), Message("user", f"Improve instruction {number}.")))


@pytest.fixture
def proposals_of(tmp_path: Path) -> Iterator[MakeProposals]:
    """Makes proposals over one log; made again, they go on with it."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        made: list[Proposals] = []

        def make(model: Model | None = None, **budget: int) -> Proposals:
            for earlier in made:
                earlier.close()
            meter = Meter(Budget(**budget))
            proposals = Proposals(model or ScriptedProposer(0), meter, background, tmp_path / "proposals.jsonl", lambda: None)
            made.append(stack.enter_context(closing(proposals)))
            return proposals

        yield make


def asked_of(proposals: Proposals, numbers: list[int]) -> list[Reply]:
    return [run_sync(proposals.complete(improving(number))) for number in numbers]


@given(st.lists(st.integers(0, 2), max_size=8), st.integers(0, 8))
@settings(max_examples=cases(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gone_through_again_after_a_kill_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], until: int
) -> None:
    with Background() as background:

        def made(name: str) -> Proposals:
            return Proposals(ScriptedProposer(0), Meter(), background, folder / name, lambda: None)

        folder = tmp_path_factory.mktemp("proposals")
        with closing(made("whole")) as whole:
            expected = asked_of(whole, numbers)
        with closing(made("cut")) as cut:
            asked_of(cut, numbers[:until])
        with closing(made("cut")) as again:
            assert asked_of(again, numbers) == expected
            assert again.spent == whole.spent


def test_its_own_requests_have_a_budget_of_their_own(proposals_of: MakeProposals) -> None:
    proposals = proposals_of(calls=2)
    asked_of(proposals, [1, 2])
    with pytest.raises(SearchOver, match="the optimizer's own requests: budget of 2 model calls used up"):
        asked_of(proposals, [3])
    assert (proposals.spent.trials, proposals.spent.calls) == (0, 2)
    assert proposals.spent.tokens > 0


log_lines = st.lists(
    st.dictionaries(st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), max_size=3), max_size=6
)


@settings(max_examples=cases(12))
@given(log_lines, log_lines, st.binary(max_size=20).filter(lambda torn: b"\n" not in torn))
def test_what_was_written_is_read_and_a_torn_end_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, first: list[dict[str, Any]], second: list[dict[str, Any]], torn: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    _write(path, first)
    with path.open("ab") as file:
        file.write(torn)
    assert [line for _, line in read_log(path)] == first
    _write(path, second)
    assert [line for _, line in read_log(path)] == [*first, *second]


@settings(max_examples=cases(12))
@given(log_lines, st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], draw: Any
) -> None:
    folder = tmp_path_factory.mktemp("log")
    _write(folder / "a", made)
    draw.shuffle(made)
    _write(folder / "b", made)
    assert log_digest(folder / "a") == log_digest(folder / "b")
    assert log_digest(folder / "a")["count"] == len(made)


def _write(path: Path, items: list[dict[str, Any]]) -> None:
    log = JsonLinesLog(path)
    for item in items:
        log.append(item)
    log.close()


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n[]\n')
    reseal(path)
    with pytest.raises(RunError, match=r"log\.jsonl:2: "):
        list(read_log(path))


def test_a_task_of_the_test_split_and_a_log_that_is_none_are_refused(rollouts_of: Make, tmp_path: Path) -> None:
    rollouts = rollouts_of()
    with pytest.raises(RunStopped, match="'arithmetic-test', which is in neither train nor dev"):
        rollouts(rollouts.arm.loop, program_of(rollouts), {"query": "", "task": "arithmetic-test"}, SampledPrediction())
    (tmp_path / "bare.jsonl").write_text('{"key": ["a", "b", 0, null]}\n', encoding="utf-8")
    reseal(tmp_path / "bare.jsonl")
    with pytest.raises(RunError, match=r"bare\.jsonl:1: record: Field required"):
        rollouts_of()
