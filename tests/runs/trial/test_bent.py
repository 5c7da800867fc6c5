"""Air that no wording can bend: what a loop keeps from the model costs it, how it words it does not, and nobody cheats unseen."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from tests.checks.loop.altered_loops import Changed
from whichloop import Bare
from whichloop.datasets import arithmetic, events
from whichloop.loops.stateless import Stateless
from whichloop.metrics.caveats import unsound_arms
from whichloop.metrics.record import Record
from whichloop.metrics.summary import summarize
from whichloop.models.metering import MeteredModel
from whichloop.models.profiles import load_profile
from whichloop.models.scripted import Scripted
from whichloop.protocol import (
    Loop,
    Message,
    Model,
    Observation,
    Outcome,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    resolve,
    run_sync,
)
from whichloop.protocol.names import Spec
from whichloop.protocol.tools import ToolboxAround
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial

Change = Callable[[str], str]
"""From one text of a request to another."""


class Bent:
    """A loop whose requests are changed on their way."""

    name = "bent"

    def __init__(self, inner: Any = None, change: Change = str, *, scopes: bool = False) -> None:
        """`scopes`: each request has a scope of its own."""
        self.inner = Bare() if inner is None else inner
        self.change, self.scopes = change, scopes

    @property
    def stops(self) -> frozenset[StopReason]:
        stops: frozenset[StopReason] = self.inner.stops
        return stops

    def with_step_limit(self, tool_steps: int) -> Loop:
        bent: Any = type(self)(self.inner.with_step_limit(tool_steps), self.change, scopes=self.scopes)
        return bent  # type: ignore[no-any-return]

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        numbers = itertools.count()

        def changed(request: Request) -> Request:
            messages = tuple(replace(message, content=self.change(message.content)) for message in request.messages)
            return replace(request, messages=messages, scope=f"step {next(numbers)}" if self.scopes else request.scope)

        outcome: Outcome[Any] = await self.inner.run(query, tools, Changed(model, changed), observer)
        return outcome


def of_errors(told: Callable[[str], str]) -> Change:
    """Change what `Bare` shows of an error: `told` gets its text."""

    def change(text: str) -> str:
        if not re.match(r'\{"status": ?"error"', text):
            return text
        return told(json.loads(text)["data"])

    return change


class Dodger(Bent):
    """Makes its calls in a scope of their own, away from the one in which the model decided on them."""

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        return await super().run(query, Elsewhere(tools), model, observer)


class Elsewhere(ToolboxAround):
    """Runs each call in a task that knows nothing of the requests before it."""

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        running = asyncio.create_task(self.within.call(call, validate=validate), context=contextvars.Context())
        return await running


TASKS = 24
FORMAT, TOOLS = "flaky-format", "flaky-tools"
CLOSING = 'Give a number. If no number can be determined, the right answer is "not determined".'
REWORDED = {
    "the closing line in other words": Bent(change=lambda text: text.replace(CLOSING, "Say the figure, or not determined.")),
    "no closing line": Bent(change=lambda text: text.replace(CLOSING, "")),
    "errors in a sentence": Bent(change=of_errors(lambda said: f"Your last move did not work out. What came back was: {said}")),
    "a scope for each step": Bent(scopes=True),
}


@functools.cache
def suite() -> Any:
    return arithmetic.load()


def ran(loop: Any, profile: str, tasks: int = TASKS, on: Any = None) -> Sequence[Record]:
    """The records of a loop on the first tasks."""
    of = on or suite()
    limited = loop.with_step_limit(of.max_tool_steps)
    arm, context = Arm("bent", Spec("bent", {}), limited, "scripted", load_profile(profile)), TrialContext(of)

    async def all_of_them() -> list[Record]:
        return [(await run_trial(Trial(arm, task, 0, 0), context)).record for task in of.tasks[:tasks]]

    return run_sync(all_of_them())


def accuracy(records: Sequence[Record]) -> float:
    return sum(record.accuracy for record in records) / len(records)


@functools.cache
def of_bare(profile: str) -> float:
    return accuracy(ran(Bare(), profile))


@pytest.mark.parametrize(("name", "profile"), list(zip(REWORDED, [FORMAT, TOOLS, TOOLS, FORMAT], strict=True)))
def test_other_words_of_the_same_content_change_nothing(name: str, profile: str) -> None:
    assert accuracy(ran(REWORDED[name], profile)) == pytest.approx(of_bare(profile), abs=0.03)


@pytest.mark.parametrize(("profile", "words", "all_of_it"), [(FORMAT, 0.05, 0.15), (TOOLS, 0.04, 0.08)])
def test_a_loop_that_hides_errors_loses(profile: str, words: float, all_of_it: float) -> None:
    hides_words = Bent(change=of_errors(lambda said: "That did not work. Please try again."))
    hides_all = Bent(change=of_errors(lambda said: '{"status": "success", "data": ""}'))
    found = [of_bare(profile) - accuracy(ran(loop, profile)) for loop in (hides_words, hides_all)]
    assert found[0] >= words
    assert found[1] >= all_of_it
    assert found[1] > found[0]


def test_faults_cannot_be_dodged() -> None:
    """Not by scopes, nor by calls that are made in a task which knows of no request."""
    met = [[record.faults for record in ran(loop, TOOLS, 20)] for loop in (Bare(), Dodger(scopes=True))]
    assert met[0] == met[1]
    assert sum(fault.point.startswith("tool:") for faults in met[0] for fault in faults) > 10


class Knowing(Bent):
    """Knows the plans: makes their calls itself, and shows the model all results in one prompt."""

    async def run(self, query: Any, tools: Any, model: Any, observer: Any) -> Outcome[Any]:
        plan = next(task.plan for task in suite().tasks if task.query.text == query.text)
        values: dict[str, Any] = {}
        texts = [query.full_text]
        for call in plan.calls:
            seen = await tools.call(ToolCall(call.tool, resolve(call.arguments, values)))
            texts.append(seen.data)
            if not seen.ok:
                return Outcome(None, StopReason.FINISHED, 0)
            values[call.id] = float(seen.data.split("] ")[1].split(" [")[0])
        reply = await model.complete(Request(tuple(Message("user", text) for text in texts)))
        return Outcome(reply.text, StopReason.FINISHED, 1)


def test_calls_that_no_reply_asked_for_are_told() -> None:
    honest, knowing = (list(unsound_arms({"arm": summarize(ran(loop, "clean", 20))})) for loop in (Bare(), Knowing()))
    assert honest == []
    assert "calls nobody asked for" in {each.code for each in knowing}


def test_a_retry_with_the_tool_that_failed_is_asked_for() -> None:
    """`stateless` keeps the tool of a call that an instruction in a result had planted, and takes the arguments of the reply."""
    records = ran(Stateless(), "injected", on=events.load(24))
    assert not any(record.call_counts.get("not_asked_for") for record in records)


class Looking(Bent):
    """Follows every attribute of what it holds."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.found: set[str] = set()

    def with_step_limit(self, tool_steps: int) -> Any:
        return self

    async def run(self, query: Any, tools: Any, model: Any, observer: Any) -> Outcome[Any]:
        kept, left = dict[int, Any](), [query, tools, model, observer]  # kept, so that no id comes twice
        while left:
            one = left.pop()
            if id(one) in kept or isinstance(one, str | int | float | bytes | ModuleType | type):
                continue
            kept[id(one)] = one
            self.found.add(type(one).__name__)
            names = (
                name
                for name in dir(one)
                if not name.startswith("__") or name in ("__self__", "__dict__", "__wrapped__", "__closure__")
            )
            left += [value for name in names if (value := getattr(one, name, None)) is not None]
            left += list(one.values()) if isinstance(one, dict) else list(one) if isinstance(one, list | tuple | set) else []
        return Outcome(None, StopReason.FINISHED, 0)


def test_nothing_that_a_loop_holds_leads_to_the_script() -> None:
    looking = Looking()
    ran(looking, TOOLS, 1)
    assert {"LoopModel", "MeteredToolbox", "Calculator"} & looking.found >= {"LoopModel", "MeteredToolbox"}
    hidden = {"Script", "Plan", "PlannedCall", "Task", "Suite", "Truth", "Tunnel", "Ledger", "Recorder"}
    assert not looking.found & {*hidden, Scripted.__name__, MeteredModel.__name__}
