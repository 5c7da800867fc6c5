"""Metering: budgets, what the listener is told, and the tools that the tunnel's faults fall upon."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.models.faults import IMPLICIT, Fault, FaultPoint
from whichloop.models.metering import HUGE_CHARS, Budget, Meter, MeteredModel, MeteredToolbox
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import call_digest, content_digest
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    SILENT,
    BudgetExceeded,
    Capabilities,
    Chunk,
    Message,
    Model,
    Observation,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    Usage,
    run_sync,
)
from whichloop.protocol.names import Spec
from whichloop.protocol.receipts import sightings, strip_receipts
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import NotRun, TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

from . import bench

LAW = settings(max_examples=cases(30), deadline=None)
QUESTION = Request((Message("user", "Well?"),))


class Echo:
    """Says the same each time, in three chunks where it streams, and fails where it is told to."""

    name = "echo"
    capabilities = Capabilities()

    def __init__(self, usage: Usage | None = None, fails: bool = False) -> None:
        self.reply = Reply("a b c", usage=usage)
        self.fails = fails

    async def complete(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        if self.fails:
            raise ProviderError("down")
        return self.reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        for word in ("a ", "b "):
            yield Chunk(word)
        if self.fails:
            raise ProviderError("down")
        yield Chunk("c", reply=self.reply)


def metered(budget: Budget | None = None, *, model: Model | None = None, parent: Meter | None = None) -> Any:
    made: Any = MeteredModel(model or Echo(), Meter(budget or Budget(), parent), (ear := bench.Ear()).exchange)
    made.ear = ear
    return made


async def spend(model: Any, most: int = 50) -> int:
    """Ask until the budget is used up; gives the number of replies."""
    for count in range(most):
        try:
            await model.complete(QUESTION)
        except BudgetExceeded:
            return count
    return most


@LAW
@given(
    calls=st.none() | st.integers(1, 9),
    tokens=st.none() | st.integers(1, 90),
    dollars=st.none() | st.integers(1, 9),
    cost=st.none() | st.integers(0, 3),
)
def test_a_budget_lets_calls_through_until_a_limit_is_reached(calls, tokens, dollars, cost):
    usage = Usage(7, 3, cost_usd=None if cost is None else float(cost))
    model = metered(Budget(calls, tokens, dollars), model=Echo(usage))
    made = run_sync(spend(model))
    limits = [calls or 50, -(-tokens // 10) if tokens else 50, -(-dollars // cost) if dollars and cost else 50]
    assert made == min(limits)
    assert (model.meter.calls, model.meter.tokens) == (made, 10 * made)
    assert model.meter.dollars == made * (cost or 0)
    assert len(model.ear.exchanges) == made
    assert bool(model.meter.refused) == (made < 50)


@LAW
@given(st.integers(1, 9), st.integers(1, 12))
def test_calls_in_flight_count_too(limit: int, at_once: int) -> None:
    async def run(model: Any) -> int:
        results = await asyncio.gather(*(model.complete(QUESTION) for _ in range(at_once)), return_exceptions=True)
        return sum(isinstance(result, Reply) for result in results)

    whole = Meter(Budget(calls=limit))
    assert run_sync(run(metered(Budget(calls=limit)))) == min(limit, at_once)
    made = run_sync(run(metered(parent=whole)))
    assert (made, whole.calls, whole.tokens) == (min(limit, at_once), made, 8 * made)


def test_a_refusal_says_which_limit_is_used_up() -> None:
    for budget, usage, words in (
        (Budget(calls=1), Usage(), "budget of 1 model calls used up"),
        (Budget(tokens=5), Usage(3, 3), "budget of 5 tokens used up"),
        (Budget(dollars=0.5), Usage(cost_usd=0.6), "budget of 0.5 dollars used up"),
        (Budget(seconds=1e-9), Usage(), "budget of 1e-09 seconds used up"),
    ):
        model = metered(budget, model=Echo(usage))
        run_sync(spend(model))
        assert model.meter.refused == model.meter.exhausted == words


def test_a_budget_of_dollars_warns_once_of_replies_without_a_price(caplog: pytest.LogCaptureFixture) -> None:
    whole = Meter(Budget(dollars=2.5))
    model = metered(Budget(calls=3), parent=whole, model=Echo(Usage(1, 1, cost_usd=None)))
    assert (whole.cost_usd, whole.unpriced) == (0.0, 0)
    run_sync(spend(model))
    assert (whole.cost_usd, model.meter.cost_usd, whole.dollars, whole.unpriced) == (None, None, 0.0, 3)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("the model does not say what a reply costs: the budget of 2.5 dollars does not count it")


@dataclass(frozen=True)
class Greedy:
    """Asks ten times, and swallows whatever is raised."""

    streams: bool = False
    name: str = "greedy"
    stops: frozenset[StopReason] = frozenset({StopReason.FINISHED})

    def with_step_limit(self, tool_steps: int) -> Self:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        for _ in range(10):
            with contextlib.suppress(BudgetExceeded):
                if self.streams:
                    async for _chunk in model.stream(QUESTION):
                        pass
                else:
                    await model.complete(QUESTION)
        return Outcome("done", StopReason.FINISHED, 10)


def trial_of(loop: Any) -> tuple[Trial, Suite]:
    task = Task("t", Query("Well?"), "done", scorer="exact", no_plan="none is needed")
    arm = Arm("greedy/echo", Spec("greedy", {}), loop, "echo", load_profile("clean"))
    return Trial(arm, task, 0, 0), Suite("s", "1", (task,), lambda _: StatelessEnvironment(()))


@pytest.mark.parametrize("streams", [True, False])
def test_swallowing_the_end_of_a_budget_does_not_help(streams: bool) -> None:
    trial, suite = trial_of(Greedy(streams))
    free = run_sync(run_trial(trial, TrialContext(suite, TrialModels({"echo": Echo()})))).record
    assert (free.stop, free.lm_calls, free.accuracy) == ("finished", 10, 1)
    record = run_sync(run_trial(trial, TrialContext(suite, TrialModels({"echo": Echo()}), trial_budget=Budget(calls=3)))).record
    assert (record.stop, record.lm_calls, record.accuracy, record.status) == ("budget", 3, 0, "scored")
    assert "budget of 3 model calls" in record.reason


def test_the_end_of_the_run_s_budget_leaves_the_trial_for_later() -> None:
    trial, suite = trial_of(Greedy())
    whole = Meter(Budget(calls=4))
    with pytest.raises(NotRun, match="budget of 4 model calls"):
        run_sync(run_trial(trial, TrialContext(suite, TrialModels({"echo": Echo()}), meter=whole)))
    assert whole.calls == 4


def test_a_reply_without_a_count_gets_an_estimate() -> None:
    model = metered()
    assert run_sync(model.complete(QUESTION)).usage == Usage(6, 2, estimated=True)
    counted = Usage(100, 20, 50, cost_usd=0.1)
    assert run_sync(metered(model=Echo(counted)).complete(QUESTION)).usage == counted


def test_a_stream_is_waited_for_while_it_is_silent_and_not_while_it_is_read() -> None:
    class Stalling(Echo):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            yield Chunk("a")
            await asyncio.sleep(3600)

    async def go() -> list[bool]:
        model = metered(model=Stalling())
        chunks = aiter(model.stream(QUESTION))
        await anext(chunks)
        waited = [model.waiting_s > 0]
        running = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0.01)
        waited.append(model.waiting_s > 0)
        running.cancel()
        await asyncio.wait({running})
        return [*waited, model.waiting_s > 0]

    assert asyncio.run(go()) == [False, True, False]


@pytest.mark.parametrize(
    ("chunks", "fails", "heard"),
    [(1, False, "a "), (2, False, "a b "), (3, False, "a b c"), (9, False, "a b c"), (9, True, None)],
    ids=["closed", "closed later", "closed at its end", "whole", "failed"],
)
def test_a_stream_is_heard_once_with_what_came(chunks: int, fails: bool, heard: str | None) -> None:
    async def read(model: Any) -> None:
        async with contextlib.aclosing(model.stream(QUESTION)) as stream:
            for _ in range(chunks):
                if await anext(stream, None) is None:
                    break

    model = metered(model=Echo(fails=fails))
    with pytest.raises(ProviderError) if fails else contextlib.nullcontext():
        run_sync(read(model))
    ((request, reply, error, fault),) = model.ear.exchanges
    assert (request, fault, str(error)) == (QUESTION, None, "down" if fails else "None")
    assert (reply and reply.text, model.meter.calls) == (heard, 1)
    assert heard != "a b c" or (reply.usage, model.meter.tokens) == (Usage(6, 2, estimated=True), 8)


def lookup(key: str) -> str:
    """Look a word up."""
    if key == "none":
        raise KeyError("no such word")
    return f"the meaning of {key}"


TOOLS = (Tool.from_function(lookup, blocking=False),)


def toolbox(tunnel: Tunnel | None) -> Any:
    return MeteredToolbox(TOOLS, tunnel=tunnel)


def call(tools: Toolbox, **arguments: Any) -> Observation:
    return run_sync(tools.call(ToolCall("lookup", arguments, "id")))


@LAW
@given(st.text(max_size=20))
def test_in_the_tunnel_a_result_stands_between_the_marks_of_its_receipt(key: str) -> None:
    plain, signed = call(toolbox(None), key=key), call(toolbox(Tunnel()), key=key)
    digests = f"{call_digest('lookup', {'key': key})}.{content_digest(plain.data)}"
    assert signed.data == f"[r:{digests}] {plain.data} [{digests}:r]"
    assert strip_receipts(signed.data) == plain.data
    assert replace(signed, data="", value=None) == replace(plain, data="", value=None)
    assert signed.value == (signed.data if signed.ok else None)


def test_a_receipt_stands_around_what_the_length_cap_leaves() -> None:
    seen = call(toolbox(Tunnel()), key="x" * 50_000)
    assert seen.data.startswith("[r:")
    assert re.search(r"\(truncated, 50015 characters in all\) \[[0-9a-f.]+:r\]\Z", seen.data)
    assert sightings(seen.data).keys() == {call_digest("lookup", {"key": "x" * 50_000})}


def test_a_call_that_never_ran_has_none() -> None:
    tunnel = Tunnel()
    tools = toolbox(tunnel)
    unknown = run_sync(tools.call(ToolCall("look", {})))
    assert (unknown.error_type, call(tools, word="x").error_type) == ("UnknownTool", "InvalidArguments")
    assert tunnel.ledger.issued == []


def armed(kind: str, *, believed: bool = False) -> tuple[Any, Tunnel, Any]:
    tunnel = Tunnel()
    fault = Fault(kind, FaultPoint("tool", "c1"), "after", 1, believed=believed)
    tunnel.of_call[call_digest("lookup", {"key": "x"})] = fault
    return toolbox(tunnel), tunnel, fault


@pytest.mark.parametrize(
    ("kind", "status", "error_type", "known"),
    [
        ("tool.raises", "error", "ToolUnavailable", False),
        ("tool.flaky", "error", "ToolUnavailable", False),
        ("tool.hangs", "error", "TimeoutError", False),
        ("tool.garbage", "success", None, False),
        ("tool.huge", "success", None, True),
        ("tool.slow", "success", None, True),
        ("tool.lies", "success", None, False),
    ],
)
def test_a_disturbed_call(kind: str, status: str, error_type: str | None, known: bool) -> None:
    tools, tunnel, fault = armed(kind)
    clean = call(toolbox(Tunnel()), key="x")
    assert call(tools, key="y").data == call(toolbox(Tunnel()), key="y").data
    assert not fault.landed
    seen = call(tools, key="x")
    assert (seen.status, seen.error_type, seen.call_id) == (status, error_type, "id")
    assert fault.landed
    assert bool(sightings(seen.data)) == known
    assert (seen.data == clean.data) == (kind == "tool.slow")
    if kind == "tool.huge":
        assert len(seen.data) == len(clean.data) + HUGE_CHARS + 1
    assert tunnel.simulated_s == {"tool.hangs": 30, "tool.slow": 20}.get(kind, 0)
    assert call(tools, key="x").data == clean.data
    assert tunnel.faults == [fault]


@pytest.mark.parametrize("kind", sorted(IMPLICIT))
def test_a_failure_that_is_believed_has_a_receipt_of_its_own_text(kind: str) -> None:
    tools, tunnel, fault = armed(kind, believed=True)
    seen = call(tools, key="x")
    assert (seen.status, fault.landed) == ("success", True)
    assert list(sightings(seen.data)) == [call_digest("lookup", {"key": "x"})]
    assert tunnel.ledger.issued[-1].content == content_digest(strip_receipts(seen.data)) != content_digest("the meaning of x")
    assert call(tools, key="x").data == call(toolbox(Tunnel()), key="x").data
