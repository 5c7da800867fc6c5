"""A trial's time, its provider, its faults and its suite: whose fault it is where something goes wrong."""

from __future__ import annotations

import asyncio
import gc
import re
from dataclasses import replace
from typing import Any

import pytest

from whichloop.datasets.task import Suite
from whichloop.loops.bare import Bare
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.fake import FakeModel
from whichloop.models.profiles import load_profile
from whichloop.protocol import (
    Message,
    Outcome,
    ProviderError,
    Query,
    Request,
    Role,
    StopReason,
    Tool,
    ToolCall,
)
from whichloop.protocol.names import Spec
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial import trial as trial_module
from whichloop.runs.trial.trial import TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

ANSWER = '{"final_answer": "42"}'
FINISHED = Outcome("42", StopReason.FINISHED, 0)


def asked(text: str = "?") -> Request:
    return Request((Message("user", text),), role=Role.DECIDE, codec=CODEC)


async def slowly(request: Request) -> str:
    await asyncio.sleep(0.01)
    return "noise"


async def hang(*arguments: Any) -> Outcome:
    await asyncio.sleep(100)
    return FINISHED


@pytest.mark.parametrize("models", [None, {"fake": FakeModel(then=ANSWER)}])
def test_a_loop_that_waits_for_nothing_until_its_time_is_up_is_scored_0(one_trial, tiny, written, impatient, models):
    record = one_trial(written(hang), tiny(), models=models, timeout_s=0.2).record
    assert (record.status, record.stop, record.accuracy) == ("scored", "timeout", 0.0)


def test_a_scripted_loop_that_asks_without_end_is_ended_after_a_number_of_requests_and_calls(
    one_trial, tiny, written, impatient, monkeypatch
):
    monkeypatch.setattr(trial_module, "MAX_PASSES", 500)

    async def works(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            await model.complete(asked())
            await tools.call(ToolCall("double", {"n": 1}))

    first, again = (one_trial(written(works), tiny(), timeout_s=limit_s).record for limit_s in (0.2, 5))
    assert (first.status, first.stop, first.accuracy) == ("scored", "timeout", 0.0)
    assert re.fullmatch(r"no end after 500 requests and calls at tests/runs/trial/test_trial_causes\.py:\d+", first.reason)
    assert first.tool_calls + sum(first.calls.values()) == 500
    assert (first.trace_digest, first.reason) == (again.trace_digest, again.reason)


def test_a_scripted_trial_may_take_long_as_long_as_it_moves_on(one_trial, tiny, written, monkeypatch):
    """How long that is depends on the machine."""

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        for _ in range(10):
            await asyncio.sleep(0.05)
            await tools.call(ToolCall("double", {"n": 1}))
        return FINISHED

    record = one_trial(written(run), tiny(), timeout_s=0.2).record
    assert (record.status, record.stop, record.reason) == ("scored", "finished", "")
    monkeypatch.setattr(trial_module, "MAX_LOST", 2)
    lost = one_trial(written(run), tiny(), timeout_s=0.2).record
    assert (lost.status, lost.reason) == ("errored", "still at work after 2 times the trial's 0.2 s")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the interpreter, of a coroutine that cannot end
@pytest.mark.parametrize(("doing", "swallowed"), [("sleeping", asyncio.CancelledError), ("asking", BaseException)])
def test_a_loop_that_swallows_its_cancellation_is_scored_0_and_holds_nothing_up(
    one_trial, tiny, written, impatient, monkeypatch, swallowed, doing
):
    monkeypatch.setattr(trial_module, "MAX_PASSES", 500)
    gc.freeze()  # what other tests have left: it takes long to look through
    model = FakeModel(then=slowly)

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            try:
                if doing == "sleeping":
                    await asyncio.sleep(0.01)
                else:
                    await model.complete(asked())
            except swallowed:
                pass

    for models in (None, {"fake": model}):
        record = one_trial(written(run), tiny(), models=models, timeout_s=0.1).record
        assert (record.status, record.stop, record.accuracy) == ("scored", "timeout", 0.0)
        assert "cancellation was swallowed" in record.reason
    gc.collect()


def test_a_loop_that_never_waits_still_meets_the_time_limit(one_trial, tiny, written):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            await tools.call(ToolCall("double", {"n": 1}))

    record = one_trial(written(run), tiny(), models={"fake": FakeModel(ANSWER)}, timeout_s=0.2).record
    assert (record.status, record.stop) == ("scored", "timeout")
    assert record.reason.startswith("no end within 0.2 s at tests/runs/trial/test_trial_causes.py:"), "where it waits"


def test_what_a_loop_leaves_running_gets_no_more_replies(tiny, written, checked):
    model = FakeModel(then=slowly)

    async def ask_on(inner: Any) -> None:
        while True:
            await inner.complete(asked())

    left: list[asyncio.Task[None]] = []

    async def run(query: Query, tools: Any, inner: Any, observer: Any) -> Outcome:
        left.append(asyncio.create_task(ask_on(inner)))
        await asyncio.sleep(0.03)
        return FINISHED

    async def go() -> None:
        arm = Arm("arm", Spec("loop", {}), written(run), "fake", load_profile("clean"))
        suite = tiny()
        checked(await run_trial(Trial(arm, suite.tasks[0], 0, 0), TrialContext(suite, TrialModels({"fake": model}))))
        await asyncio.sleep(0.05)
        before = len(model.requests)
        await asyncio.sleep(0.05)
        assert len(model.requests) == before

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["rate_limit", "auth"])
@pytest.mark.parametrize("loop", [Bare(), Bare(on_provider_error="observe")], ids=["stops", "goes on"])
def test_a_real_providers_failure_is_errored(one_trial, tiny, kind, loop):
    record = one_trial(loop, tiny(), models={"fake": FakeModel(then=ProviderError("down", kind))}, attempt=1).record
    assert (record.status, record.scores, record.attempt) == ("errored", {}, 1)
    assert record.reason == "provider: down"
    assert record.errors[f"provider.{kind}"] >= 1


def test_a_loop_that_gets_over_a_real_providers_failure_is_scored_and_one_that_crashes_of_it_errored(one_trial, tiny, written):
    loop = Bare(on_provider_error="observe")
    record = one_trial(loop, tiny(), models={"fake": FakeModel(ProviderError("down"), then=ANSWER)}).record
    assert (record.status, record.stop, record.accuracy) == ("scored", "finished", 1.0)

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        await model.complete(asked())
        return FINISHED

    assert one_trial(written(run), tiny(), models={"fake": FakeModel(then=ProviderError("down"))}).record.status == "errored"


def profile_file(folder: Any, rates: str) -> str:
    file = folder / "own.toml"
    file.write_text(f'name = "own"\n[rates]\n{rates}\n[clears]\nnever = 1\n')
    return str(file)


@pytest.mark.parametrize(("kind", "stop"), [("provider.server", "provider_error"), ("wire.empty", "error_valve")])
def test_an_injected_fault_is_the_treatment_and_scored(one_trial, tiny, tmp_path, kind, stop):
    record = one_trial(Bare(), tiny(), profile=profile_file(tmp_path, f'"{kind}" = 1.0')).record
    assert (record.status, record.stop, record.accuracy) == ("scored", stop, 0.0)
    assert [fault.kind for fault in record.faults if fault.landed] == [kind]


@pytest.mark.parametrize(
    ("changes", "real_too", "reason"),
    [
        ({"quarantined": "wrong gold"}, True, "quarantined: wrong gold"),
        ({"plan": None, "no_plan": "no annotations"}, False, "no plan: no annotations"),
        ({"plan": None}, False, "no plan: the suite gives none"),
    ],
)
def test_a_task_that_cannot_be_asked_is_excluded_with_the_reason(one_trial, tiny, changes, real_too, reason):
    done = one_trial(Bare(), tiny(**changes))
    assert (done.record.status, done.record.reason, done.trace) == ("excluded", reason, b"")
    real = one_trial(Bare(), tiny(**changes), models={"fake": FakeModel(then=ANSWER)})
    assert (real.record.status == "excluded") is real_too


def test_a_plan_that_does_not_replay_excludes_its_task(one_trial, tiny):
    def double(n: int) -> int:
        """Never works."""
        raise ZeroDivisionError("no")

    record = one_trial(Bare(), tiny((Tool.from_function(double, blocking=False),))).record
    assert record.status == "excluded"
    assert record.reason.startswith("the plan does not replay: task 't1', call 'c1'")


def score_two(judgement: Any) -> Any:
    return 2.0


def score_raises(judgement: Any) -> Any:
    raise KeyError("bug")


@pytest.mark.parametrize("scorer", [score_two, score_raises, None])
def test_a_scorer_that_fails_is_our_bug_not_the_loops(one_trial, tiny, scorer):
    name = "no_such_scorer" if scorer is None else f"{__name__}:{scorer.__name__}"
    record = one_trial(Bare(), tiny(scorer=name)).record
    assert record.status == "errored"
    assert record.reason.startswith(f"scorer {name}: ")
    assert record.stop == "finished"


def leaky(suite: Suite, where: str) -> Suite:
    """The suite, its digest taken, with environments that fail from now on."""
    inner, sane = suite.open(suite.tasks[0]), True

    def fail(*_: Any) -> Any:
        raise OSError("no disk")

    def open_(task: Any) -> Any:
        if sane or where == "open":
            return inner if sane else fail()
        parts = {"tools": property(fail)} if where == "tools" else {"tools": inner.tools, "state": fail}
        return type("Leaky", (), {"close": lambda self: None, **parts})()

    made = replace(suite, open=open_)
    assert made.digest
    sane = False
    return made


@pytest.mark.parametrize(
    ("where", "models"),
    [("open", None), ("tools", {"fake": FakeModel(then=ANSWER)}), ("state", None)],
    ids=["open", "tools", "state"],
)
def test_an_environment_that_fails_is_errored_and_the_run_goes_on(one_trial, tiny, where, models):
    record = one_trial(Bare(), leaky(tiny(), where), models=models).record
    assert record.status == "errored"
    assert "OSError: no disk" in record.reason
