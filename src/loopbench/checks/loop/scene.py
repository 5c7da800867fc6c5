"""The bench on which a loop is run: scenes, a model and tools that see all it does, and gates that hold it up or break it off."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loopbench.datasets.task import StatelessEnvironment, Suite, Task
from loopbench.datasets.validity import replay
from loopbench.models.metering import MeteredToolbox
from loopbench.models.native import NATIVE
from loopbench.models.profiles import load_profile
from loopbench.models.receipts import Truth, call_digest, content_digest
from loopbench.models.scripted import Script, Scripted
from loopbench.models.tunnel import Tunnel
from loopbench.protocol import (
    Answer,
    Capabilities,
    Chunk,
    Codec,
    Loop,
    Model,
    ModelError,
    Move,
    Observation,
    Outcome,
    Plan,
    PlannedCall,
    Query,
    Ref,
    Reply,
    Request,
    Tool,
    ToolCall,
    WrappedModel,
)
from loopbench.protocol.values import cap, error_text
from loopbench.runs.trial.guard import stop

from .law import Broken, require
from .random_moves import say

MAX_CALLS = 200
"""Model calls, and tool calls, after which a run counts as one without end."""
LIMIT_S = 10.0
"""Seconds after which a run counts as hung; none of these models and tools ever waits."""
GRACE_S = 1.0
"""Seconds that a cancelled run gets to end."""
MAX_DETAIL_CHARS = 300
JAMMED = "the frobnicator is jammed"

Gate = Callable[[Literal["model", "tool"], int], Awaitable[None]]
"""Passed before each model call and each tool call, with how many of that kind there have been, this one included."""


async def open_gate(kind: Literal["model", "tool"], count: int) -> None:
    """Lets everything through at once."""


async def swinging_gate(kind: Literal["model", "tool"], count: int) -> None:
    """Lets everything else that can go on go on first."""
    await asyncio.sleep(0)


# --- tools and tasks ---


def add(a: int, b: int) -> int:
    """The sum of two whole numbers."""
    return a + b


def times(a: int, b: int) -> int:
    """The product of two whole numbers."""
    return a * b


def dig(hole: int) -> str:
    """Dig a hole with a number."""
    return f"dug hole {hole}"


def jam(hole: int) -> str:
    """Turn the frobnicator a number of times."""
    raise ValueError(JAMMED)


def tools_of(*functions: Callable[..., Any]) -> tuple[Tool, ...]:
    return tuple(Tool.from_function(function, blocking=False) for function in functions)


TOOLS = tools_of(add, times, dig, jam)

_SUM = PlannedCall("sum", "add", {"a": 17, "b": 25}, "Add 17 and 25.")
_CHAIN = (
    _SUM,
    PlannedCall("more", "add", {"a": Ref("sum"), "b": 1000}, "Raise the first sum by a thousand."),
    PlannedCall("product", "times", {"a": Ref("more"), "b": 3}, "Treble what came of that."),
)
_JAM = PlannedCall("jam", "jam", {"hole": 1}, "Turn the frobnicator once.", fails=True)
_APART = (
    PlannedCall("left", "add", {"a": 3, "b": 4}, "Count the apples on the left."),
    PlannedCall("right", "times", {"a": 5, "b": 6}, "Count the apples on the right."),
    PlannedCall("behind", "add", {"a": 100, "b": 11}, "Count the apples at the back."),
)
_ALL = PlannedCall("both", "add", {"a": Ref("left"), "b": Ref("right")}, "Put left and right together.")
_TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}

NO_CALL = Task("no call", Query("A spider has how many legs? You know that without any help."), 8, plan=Plan((), 8))
ONE_CALL = Task("one call", Query("What do seventeen and twenty-five make?"), 42, plan=Plan((_SUM,), Ref("sum")))
CHAIN = Task(
    "three calls", Query("What is 17 + 25, raised by a thousand, three times over?"), 3126, plan=Plan(_CHAIN, Ref("product"))
)
FAILING = Task("failing call", Query("Can the frobnicator be turned? State yes or no."), "no", plan=Plan((_JAM,), "no"))
SCHEMA = Task(
    "schema",
    Query("Give the total of 17 and 25 as an object.", schema=_TOTAL),
    {"total": 42},
    plan=Plan((_SUM,), {"total": Ref("sum")}),
)
APART = Task("calls apart", Query("Left, right and behind: how many apples?"), 37, plan=Plan((*_APART, _ALL), Ref("both")))
TASKS = (NO_CALL, ONE_CALL, CHAIN, FAILING, SCHEMA, APART)


# --- scenes ---


@dataclass(frozen=True, slots=True)
class Scene:
    """What a loop is put before: a query, tools, and the model that answers."""

    query: Query
    model: Callable[[Tunnel], Model]
    """Made anew for each run, over what it shares with the run's tools."""
    tools: tuple[Tool, ...] = TOOLS


async def scripted(task: Task, query: Query | None = None) -> Scene:
    """A task before the scripted model, undisturbed. `query`: other words for the same question."""
    replayed = await replay(task, Suite("bench", "1", (task,), lambda _: StatelessEnvironment(TOOLS)))
    oracle = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in replayed}
    asked = query or task.query
    assert task.plan is not None
    profile, specs = load_profile("clean"), {tool.name: tool.spec for tool in TOOLS}
    script = Script(task.plan, oracle, profile, 0, task.id, tools=specs, question=asked.text)
    return Scene(asked, lambda tunnel: Scripted(script, tunnel))


Said = Sequence[Move] | Reply | ModelError
Sayer = Callable[[Request, int], Said]
"""What a model says to its n-th request (from 1): moves in order of preference, a reply, or an error to raise."""


class Talker:
    """A model that says what a function gives."""

    name = "talker"
    capabilities = Capabilities()

    def __init__(self, sayer: Sayer) -> None:
        self.sayer = sayer
        self.count = 0

    async def complete(self, request: Request) -> Reply:
        """Raises the ModelError that the function gives."""
        self.count += 1
        said = self.sayer(request, self.count)
        if isinstance(said, ModelError):
            raise said
        return said if isinstance(said, Reply) else say(request.codec, said)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


DIGGING = Query("Dig until there is enough.")


def talking(sayer: Sayer, query: Query = DIGGING, tools: tuple[Tool, ...] = TOOLS) -> Scene:
    return Scene(query, lambda tunnel: Talker(sayer), tools)


# --- what is seen ---


@dataclass(slots=True)
class Seen:
    """What a loop does in one run, as it happens."""

    requests: list[Request] = field(default_factory=list)
    replies: list[tuple[Codec, Reply]] = field(default_factory=list)
    """As the request's codec reads them."""
    calls: list[ToolCall] = field(default_factory=list)
    after_answer: list[ToolCall] = field(default_factory=list)
    """Calls that were made after the model had answered."""
    answered: bool = False
    in_flight: Counter[str] = field(default_factory=Counter)
    """Scope → requests without a reply so far."""
    clash: str | None = None
    """The scope of two requests that were in flight together."""
    tools_running: int = 0
    endless: asyncio.Event = field(default_factory=asyncio.Event)

    async def asked(self, request: Request) -> None:
        """Waits for good in a run without end."""
        self.requests.append(request)
        if self.in_flight[request.scope] > 0 and self.clash is None:
            self.clash = request.scope
        await self._bounded(len(self.requests))

    async def called(self, call: ToolCall) -> None:
        """Waits for good in a run without end."""
        self.calls.append(call)
        if self.answered:
            self.after_answer.append(call)
        await self._bounded(len(self.calls))

    def heard(self, request: Request, reply: Reply) -> None:
        codec = request.codec or NATIVE
        self.replies.append((codec, reply))
        with contextlib.suppress(Exception):  # what a codec raises is another law's
            self.answered |= isinstance(codec.parse(reply), Answer)

    async def _bounded(self, count: int) -> None:
        if count > MAX_CALLS:
            self.endless.set()
            await asyncio.get_running_loop().create_future()


class SeenModel(WrappedModel):
    """A model whose every request is seen."""

    def __init__(self, model: Model, seen: Seen, gate: Gate = open_gate) -> None:
        super().__init__(model)
        self.seen = seen
        self.gate = gate

    async def complete(self, request: Request) -> Reply:
        """Raises what the gate and the model raise."""
        await self.seen.asked(request)
        self.seen.in_flight[request.scope] += 1
        try:
            await self.gate("model", len(self.seen.requests))
            reply = await self.model.complete(request)
        finally:
            self.seen.in_flight[request.scope] -= 1
        self.seen.heard(request, reply)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


class _Deaf:
    """A listener that keeps nothing."""

    def exchange(self, request: Request, reply: Reply | None, error: ModelError | None, seconds: float, fault: str | None) -> None:
        return None

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        return None


class SeenToolbox(MeteredToolbox):
    """Tools whose every call is seen, with receipts."""

    def __init__(self, tools: Sequence[Tool], seen: Seen, gate: Gate, tunnel: Tunnel) -> None:
        super().__init__(tools, _Deaf(), tunnel)
        self.seen = seen
        self.gate = gate

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Raises what the gate raises."""
        await self.seen.called(call)
        self.seen.tools_running += 1
        try:
            await self.gate("tool", len(self.seen.calls))
            return await super().call(call, validate=validate)
        finally:
            self.seen.tools_running -= 1


@dataclass(frozen=True, slots=True)
class Played:
    """One run and what came of it."""

    seen: Seen
    left: object
    """What `run` returned, or the exception that left it."""
    hung: str = ""
    """Why the run was given up; empty where it ended by itself."""

    @property
    def outcome(self) -> Outcome:
        """Raises Broken where the run gave none."""
        require(not self.hung, f"the run {self.hung}; it must end by itself")
        if isinstance(self.left, BaseException):
            raise Broken(f"run() raised {shown_error(self.left)}; it must return an Outcome")
        if not isinstance(self.left, Outcome):
            raise Broken(f"run() returned a {type(self.left).__name__}, not an Outcome")
        return self.left

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests as plain JSON, with role and scope; ids of calls by their order of appearance."""
        return [shown_request(request) for request in self.seen.requests]


async def play(loop: Loop, scene: Scene, gate: Gate = open_gate) -> Played:
    """Run a loop through a scene to its end, or until it is plain that there is none."""
    seen = Seen()
    running = start(loop, scene, seen, gate)
    endless = asyncio.create_task(seen.endless.wait())
    try:
        await asyncio.wait({running, endless}, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        endless.cancel()
    if running.done():
        return Played(seen, running.result() if not running.cancelled() else asyncio.CancelledError())
    await stop(running, GRACE_S)
    calls = f"made more than {MAX_CALLS} calls" if seen.endless.is_set() else f"did not end within {LIMIT_S:g} s"
    return Played(seen, None, calls)


def start(loop: Loop, scene: Scene, seen: Seen, gate: Gate) -> asyncio.Task[object]:
    """A run as a task of its own. Its result is what `run` returned or the exception that left it; only cancellation leaves it."""
    tunnel = Tunnel()
    tools = SeenToolbox(scene.tools, seen, gate, tunnel)
    return asyncio.create_task(_caught(loop, scene.query, tools, SeenModel(scene.model(tunnel), seen, gate)))


async def _caught(loop: Loop, query: Query, tools: SeenToolbox, model: Model) -> object:
    try:
        return await loop.run(query, tools, model)
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # the boundary to the design under check: a SystemExit must not end the check
        return error


async def settle() -> None:
    """Let everything that is ready to run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


# --- in words ---


def shown_request(request: Request) -> dict[str, Any]:
    """A request as plain JSON, with role and scope; ids of calls by their order of appearance."""
    numbers: dict[str, str] = {}
    made = request.as_dict() | {"role": request.role.value, "scope": request.scope}
    for message in made["messages"]:
        for call in message.get("tool_calls", ()):
            call["id"] = numbers.setdefault(call["id"], f"#{len(numbers)}")
        if "tool_call_id" in message:
            message["tool_call_id"] = numbers.setdefault(message["tool_call_id"], f"#{len(numbers)}")
    return made


def shown_error(error: BaseException) -> str:
    return cap(f"{type(error).__name__}: {error_text(error)}", MAX_DETAIL_CHARS)


def text_of(request: Request) -> str:
    """All that a request shows in its messages."""
    return "\n".join([message.content + "".join(call.arguments for call in message.calls) for message in request.messages])


def difference(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> str:
    """Where two lists of requests part, in words."""
    for index, (one, other) in enumerate(zip(first, second, strict=False), 1):
        if one != other:
            parts = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            return f"request {index} differs in its {', '.join(parts)}"
    return f"{len(first)} requests against {len(second)}"
