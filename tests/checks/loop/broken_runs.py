"""Loops whose runs break one law each."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from tests.checks.loop.altered_loops import Changed, Own, Within
from whichloop.checks.loop.template_loop import ObjectCodec, TemplateLoop
from whichloop.loops.finish import Finish
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    BudgetExceeded,
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
    Toolbox,
    ToolCall,
)


class Nameless(Own):
    name: ClassVar[str] = ""


class Generous(Own):
    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 5)


class Mean(Own):
    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps)


class Endless(Own):
    """Unreadable replies do not count."""

    def model(self, model: Model) -> Model:
        class Patient(Changed):
            async def complete(self, request: Request) -> Reply:
                reply = await super().complete(request)
                while reply.text == "%%% no format at all %%%":
                    reply = await super().complete(request)
                return reply

        return Patient(model)


class Spendthrift(Own):
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        try:
            return await super().run(query, tools, model, observer)
        except BudgetExceeded:
            return Outcome(None, StopReason.MAX_STEPS, 0)


class Beggar(Own):
    """Asks once more before it lets BudgetExceeded go."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except BudgetExceeded:
                    return await super().complete(request)

        return Again(model)


NOW: dict[str, Query] = {}


class Shared(Own):
    """Keeps the query in a place that all runs share."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        NOW["query"] = query
        await asyncio.sleep(0)
        return await super().run(NOW["query"], tools, model, observer)


class Terse(Own):
    """Cuts errors down to their last characters: what remains is the receipt, not the reason."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Cut(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                seen = await super().call(call, validate=validate)
                return seen if seen.ok else replace(seen, data=seen.data[-16:])

        return Cut(tools)


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


class Mumbler(Own):
    """Loses the last character of a text for an answer."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        return replace(outcome, answer=outcome.answer[:-1]) if isinstance(outcome.answer, str) else outcome


class Deaf(Own):
    """Swallows its cancellation."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        try:
            return await super().run(query, tools, model, observer)
        except asyncio.CancelledError:
            return Outcome(None, StopReason.MAX_STEPS, 0)


class Stubborn(Own):
    """Asks again when it is cancelled."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except asyncio.CancelledError:
                    return await super().complete(request)

        return Again(model)


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


@dataclass(frozen=True)
class Careless(ObjectCodec):
    """Takes every text for JSON."""

    def parse(self, reply: Reply) -> Act | Answer:
        if "{" not in reply.text:
            raise KeyError("thought")
        return super().parse(reply)


def speaking(codec: ObjectCodec | None) -> type[Own]:
    class Speaking(Own):
        def model(self, model: Model) -> Model:
            return Changed(model, lambda request: replace(request, codec=codec))

    return Speaking


class Boaster(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops | {StopReason.FORCED}


class Silent(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops - {StopReason.MAX_STEPS}


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


class Brittle(Own):
    """Does not survive a tool that is not there."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Strict(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                if call.name not in self:
                    raise LookupError(call.name)
                return await super().call(call, validate=validate)

        return Strict(tools)


class Apologetic(Own):
    """Answers though the provider failed."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        return replace(outcome, answer="Sorry.") if outcome.stop is StopReason.PROVIDER_ERROR else outcome


class Retrying(Own):
    """Asks a failing provider again."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except ProviderError:
                    return await super().complete(request)

        return Again(model)


class Vague(Own):
    """Takes an overflow for the limit, unless it is the first request."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        late = outcome.stop is StopReason.CONTEXT_OVERFLOW and outcome.steps > 0
        return replace(outcome, stop=StopReason.MAX_STEPS) if late else outcome


class SystemLast(Own):
    """Ends with a second system message."""

    def model(self, model: Model) -> Model:
        return Changed(model, lambda request: replace(request, messages=(*request.messages, Message("system", "Be brief."))))


class Orphaning(Own):
    def model(self, model: Model) -> Model:
        orphan = Message("tool", "a result", call_id="call_0")
        return Changed(model, lambda request: replace(request, messages=(*request.messages, orphan)))


class Twice(Own):
    """Makes every call again, to be sure."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Again(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                seen = await super().call(call, validate=validate)
                return await super().call(call, validate=validate) if seen.ok else seen

        return Again(tools)


class Sleepy(Own):
    """Sleeps without letting anybody else have a turn."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Slow(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                time.sleep(0.15)
                return await super().call(call, validate=validate)

        return Slow(tools)


class Renamed(Own):
    def with_step_limit(self, tool_steps: int) -> Any:
        return TemplateLoop(tool_steps + 1)


class Unfrozen:
    """The template behind a face that keeps what it is told."""

    name = "unfrozen"
    stops = TemplateLoop.stops

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


class Itself(Unfrozen):
    """A limit that changes the loop itself."""

    def with_step_limit(self, tool_steps: int) -> Unfrozen:
        self.limit = tool_steps
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Any:
        return await TemplateLoop().with_step_limit(self.limit).run(query, tools, model, observer)


class Text(Own):
    async def run(self, *given: Any) -> Any:
        return "done"


class Late(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops | {StopReason.TIMEOUT}


class Overconfident(Own):
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return replace(await super().run(query, tools, model, observer), confidence=1.5)
