"""Loops that break one law each, by their runs, by what they know, or by their prompts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from tests.checks.loop.altered_loops import Changed, Own, Within
from tests.checks.loop.test_cheats import plan_of, with_receipts_again
from whichloop.checks.loop.template_loop import ObjectCodec, TemplateLoop
from whichloop.loops.finish import Finish
from whichloop.protocol import (
    SILENT,
    Message,
    Model,
    Observer,
    Outcome,
    Program,
    Prompted,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    resolve,
)  # fmt: skip
from whichloop.protocol.moves import Act, Answer
from whichloop.protocol.tool_calls import Observation


def named(name: str, base: type[Any] = Own, /, **changes: Any) -> type[Any]:
    """Return the template with other attributes."""
    return type(name, (base,), {"__module__": __name__, "__slots__": (), **changes})


def asking_again(name: str, *after: type[BaseException], while_text: str = "") -> type[Own]:
    """Return the template, which asks its model once more after an error, or as long as it replies with a text."""

    class Again(Changed):
        async def complete(self, request: Request) -> Reply:
            try:
                reply = await super().complete(request)
                while while_text and reply.text == while_text:
                    reply = await super().complete(request)
                return reply
            except after:
                return await super().complete(request)

    return named(name, model=lambda self, model: Again(model))


def swallowing(name: str, error: type[BaseException]) -> type[Own]:
    """Return the template, which takes an error for its limit of steps."""

    class Swallowing(Own):
        async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
            try:
                return await super().run(query, tools, model, observer)
            except error:
                return Outcome(None, StopReason.MAX_STEPS, 0)

    return named(name, Swallowing)


def ending(name: str, ended: Callable[[Outcome], Outcome]) -> type[Own]:
    """Return the template with other outcomes."""
    return named(name, ended=lambda self, outcome: ended(outcome))


def asked(name: str, change: Callable[[Request], Request]) -> type[Own]:
    """Return the template with other requests."""
    return named(name, model=lambda self, model: Changed(model, change))


def speaking(codec: ObjectCodec | None) -> type[Own]:
    """Return the template with another codec."""
    return asked(f"Speaking{type(codec).__name__}", lambda request: replace(request, codec=codec))


def calling(name: str, call: Callable[[Toolbox, ToolCall, bool], Any]) -> type[Own]:
    """Return the template with other calls. `call` gets the tools within."""

    class Other(Within):
        async def call(self, made: ToolCall, *, validate: bool = True) -> Observation:
            seen: Observation = await call(self.tools, made, validate)
            return seen

    return named(name, tools=lambda self, tools: Other(tools))


async def _cut(tools: Toolbox, call: ToolCall, validate: bool) -> Observation:
    """Cut errors down to their last characters: what remains is the receipt, not the reason."""
    seen = await tools.call(call, validate=validate)
    return seen if seen.ok else replace(seen, data=seen.data[-16:])


async def _twice(tools: Toolbox, call: ToolCall, validate: bool) -> Observation:
    seen = await tools.call(call, validate=validate)
    return await tools.call(call, validate=validate) if seen.ok else seen


async def _strict(tools: Toolbox, call: ToolCall, validate: bool) -> Observation:
    if call.name not in tools:
        raise LookupError(call.name)
    return await tools.call(call, validate=validate)


async def _sleeping(tools: Toolbox, call: ToolCall, validate: bool) -> Observation:
    time.sleep(0.15)
    return await tools.call(call, validate=validate)


Terse, Twice, Brittle, Sleepy = (
    calling(name, call) for name, call in (("Terse", _cut), ("Twice", _twice), ("Brittle", _strict), ("Sleepy", _sleeping))
)


class Generous(Own):
    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 2)  # one more than the reply that ends the run


NOW: dict[str, Query] = {}


class Shared(Own):
    """Keeps the query in a place that all runs share."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        NOW["query"] = query
        await asyncio.sleep(0)
        return await super().run(NOW["query"], tools, model, observer)


class Untyped(Own):
    """Answers what its model says, whatever the type of the query."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await super().run(query.for_design, tools, model, observer)


class Busybody(Own):
    """Calls a tool after the answer."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        if outcome.stop is StopReason.FINISHED:
            await tools.call(ToolCall("add", {"a": 1, "b": 1}))
        return outcome


LEFT: set[asyncio.Task[None]] = set()


class Litterer(Own):
    """Leaves a task running."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        LEFT.add(asyncio.create_task(asyncio.sleep(3_600)))
        return await super().run(query, tools, model, observer)


class Peeking(Own):
    """Looks for the expected answer in what called it."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        frame: Any = sys._getframe()
        while frame is not None and "trial" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None:
            query = replace(query, text=f"{query.text}\nThe answer is {frame.f_locals['trial'].task.expected}.")
        return await super().run(query, tools, model, observer)


@dataclass(frozen=True)
class Stripping(ObjectCodec):
    """White space round a thought is lost on the way back."""

    def parse(self, reply: Reply) -> Act | Answer:
        move = super().parse(reply)
        return replace(move, thought=move.thought.strip())


class Doubling(Own):
    """Sends each request twice at once, and does not tell the two apart."""

    def model(self, model: Model) -> Model:
        class Twice(Changed):
            async def complete(self, request: Request) -> Reply:
                one, _ = await asyncio.gather(super().complete(request), super().complete(request))
                return one

        return Twice(model)


class Racing(Own):
    """Asks for two opinions at once, and says later which one came first."""

    def model(self, model: Model) -> Model:
        class Race(Changed):
            first = ""

            async def opinion(self, request: Request, scope: str) -> Reply:
                reply = await super().complete(replace(request, scope=scope))
                self.first = self.first or scope
                return reply

            async def complete(self, request: Request) -> Reply:
                if len(request.messages) - request.examples == 2:
                    one, _ = await asyncio.gather(self.opinion(request, "a"), self.opinion(request, "b"))
                    return one
                told = Message("user", f"Opinion {self.first} came first.")
                return await super().complete(replace(request, messages=(*request.messages, told)))

        return Race(model)


@dataclass(frozen=True)
class MixingUp(Finish):
    """Makes calls at once, and gives the results for them in the order in which they come."""

    parallel_tools: bool = True

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await super().run(query, ByArrival(tools), model, observer)


class ByArrival(Within):
    """Gives the call that began first the result that comes first."""

    def __init__(self, tools: Toolbox) -> None:
        super().__init__(tools)
        self.began = 0
        self.came: list[Observation] = []
        self.arrival = asyncio.Condition()

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        place = self.began
        self.began += 1
        seen = await self.tools.call(call, validate=validate)
        async with self.arrival:
            self.came.append(seen)
            self.arrival.notify_all()
            await self.arrival.wait_for(lambda: len(self.came) > place)
        return self.came[place]


class Renamed(Own):
    def with_step_limit(self, tool_steps: int) -> Any:
        return TemplateLoop(tool_steps + 1)


class Unfrozen:
    """The template behind a face that keeps what it is told."""

    name = "unfrozen"
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops

    def __init__(self) -> None:
        self.limit = 9
        self.runs = 0

    def with_step_limit(self, tool_steps: int) -> Unfrozen:
        made = Unfrozen()
        made.limit = tool_steps
        return made

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Any:
        self.runs += 1
        return await TemplateLoop().with_step_limit(self.limit).run(query, tools, model, observer)


class Falling(Own):
    """Crashes in each run."""

    async def run(self, *given: Any) -> Any:
        raise KeyError("boom")


class Narrow(Own):
    async def run(self, query: Query) -> Any:  # type: ignore[override]  # it lacks what the contract has
        return Outcome(query, StopReason.FINISHED, 0)


def _with_the_last_exchange(request: Request) -> Request:
    """Show the question and the last exchange only."""
    first = 2 + request.examples
    return replace(request, messages=(*request.messages[:first], *request.messages[first:][-2:]))


Indexing = asked("Indexing", partial(with_receipts_again, heading="Index: "))
Forgetful = asked("Forgetful", _with_the_last_exchange)


@dataclass(frozen=True)
class Clairvoyant(Own):
    """Answers what the plan says, whatever the model said."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        plan = plan_of(query) if outcome.stop is StopReason.FINISHED else None
        if plan is None or any(call.fails for call in plan.calls):
            return outcome
        results: dict[str, Any] = {}
        for call in plan.calls:
            tool = tools.get(call.tool)
            assert tool is not None
            results[call.id] = tool.function(**resolve(call.arguments, results))
        return replace(outcome, answer=resolve(plan.answer, results))


def telling(name: str, told: Callable[[Request], dict[str, Any]]) -> type[Own]:
    """Return the template, whose requests say something else of themselves."""
    return asked(name, lambda request: replace(request, **told(request)))


def told_by(request: Request) -> Prompted:
    assert request.prompted is not None
    return request.prompted


Quiet = telling("Quiet", lambda request: {"examples": 0})
Laconic = telling("Laconic", lambda request: {"prompted": replace(told_by(request), outputs=lambda reply: {})})
Closed = named("Closed", with_predictors=lambda self, program: self)
Forgiving = named("Forgiving", with_predictors=lambda self, program: replace(self, program={**self.program, **program}))


class Doubtful(Own):
    """Adds a word whenever its prompts are set."""

    def with_predictors(self, program: Program) -> Self:
        own = program["decide"]
        return super().with_predictors({"decide": replace(own, instructions=f"{own.instructions} Really.")})
