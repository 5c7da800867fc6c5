"""The test bench for loops: scenes, a model and tools that log everything, and gates that delay or interrupt a run."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.datasets.task import Task
from whichloop.models.metering import MeteredExchange, MeteredToolbox
from whichloop.models.profiles import Profile
from whichloop.models.receipts import call_digest
from whichloop.models.scripted import Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    Act,
    Answer,
    Capabilities,
    Codec,
    ForeignLoop,
    Loop,
    Model,
    ModelError,
    Move,
    Observation,
    Outcome,
    Plan,
    PlannedCall,
    Query,
    Recovery,
    Ref,
    Reply,
    Request,
    Tool,
    ToolCall,
    WrappedModel,
)
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.own_code import raised_at, waiting_at
from whichloop.protocol.values import cap, counted, error_text
from whichloop.runs.trial.watchdog import stop

from ..shared.bench_script import bench_script
from .law import HUNG, Broken, NotApplicable
from .random_moves import say

MAX_CALLS = 200
"""Number of model calls, and of tool calls, after which a run counts as endless."""
LIMIT_S = 10.0
"""Seconds after which a run counts as hung; these models and tools never wait."""
FOREIGN_LIMIT_S = 120.0
"""The same for a foreign loop, whose program may have to be imported first, and whose client may wait before it asks again."""
GRACE_S = 1.0
"""Seconds that a cancelled run has to end."""
MAX_DETAIL_CHARS = 300
JAMMED = "the frobnicator is jammed"

Gate = Callable[[Literal["model", "tool"], int], Awaitable[None]]
"""A gate awaited before each model and tool call, with the number of calls of that kind so far, including this one."""


async def open_gate(kind: Literal["model", "tool"], count: int) -> None:
    """Let everything through at once."""


async def yielding_gate(kind: Literal["model", "tool"], count: int) -> None:
    """Let everything else that is ready run first."""
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
    """The input of a run: a query, tools, and the model that answers."""

    query: Query
    model: Callable[[Tunnel], Model]
    """A function that creates the model of a run from the tunnel that it shares with the run's tools."""
    tools: tuple[Tool, ...] = TOOLS


async def scripted(task: Task, query: Query | None = None, profile: Profile | None = None) -> Scene:
    """Return a scene with a task and the scripted model.

    `query`: another wording of the question. `profile`: the faults; default: none.
    """
    question = query or task.query
    script = await bench_script(task, TOOLS, question=question, profile=profile)
    return Scene(question, lambda tunnel: Scripted(script, tunnel))


ModelTurn = Sequence[Move] | Reply | ModelError
TurnPolicy = Callable[[Request, int], ModelTurn]
"""A model's turn at its n-th request (from 1): moves in order of preference, a reply, or an error to raise."""


class PolicyModel(StreamsWhole):
    """A model that takes its turns from a function."""

    name = "talker"
    capabilities = Capabilities()

    def __init__(self, policy: TurnPolicy) -> None:
        self.policy = policy
        self.count = 0

    async def complete(self, request: Request) -> Reply:
        """Return the function's reply, or raise its ModelError."""
        self.count += 1
        turn = self.policy(request, self.count)
        if isinstance(turn, ModelError):
            raise turn
        return turn if isinstance(turn, Reply) else say(request.codec, turn)


DIGGING = Query("Dig until there is enough.")


def policy_scene(policy: TurnPolicy, query: Query = DIGGING, tools: tuple[Tool, ...] = TOOLS) -> Scene:
    return Scene(query, lambda tunnel: PolicyModel(policy), tools)


# --- logs ---


@dataclass(frozen=True, slots=True)
class DecidedCalls:
    """The calls that the model decided on in a reply."""

    request: int
    """Number of the request, from 1."""
    calls: tuple[ToolCall, ...]
    given: frozenset[str]
    """CALL digests of the calls whose results the loop had been given when it sent the request."""


@dataclass(slots=True)
class RunLog:
    """A log of everything that a loop does in one run."""

    requests: list[Request] = field(default_factory=list)
    replies: list[tuple[Codec, Reply]] = field(default_factory=list)
    """Replies, with the codecs of their requests."""
    decisions: list[DecidedCalls] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    """CALL digests of the calls that have given a result."""
    calls: list[ToolCall] = field(default_factory=list)
    after_answer: list[ToolCall] = field(default_factory=list)
    """Calls made after the model had answered."""
    answered: bool = False
    in_flight: Counter[str] = field(default_factory=Counter)
    """Scope → requests without a reply so far."""
    clash: str | None = None
    """The scope of two requests that were in flight together."""
    tools_running: int = 0
    endless: asyncio.Event = field(default_factory=asyncio.Event)

    async def add_request(self, request: Request) -> None:
        """Log it; wait forever in an endless run."""
        self.requests.append(request)
        if self.in_flight[request.scope] > 0 and self.clash is None:
            self.clash = request.scope
        await self._bounded(len(self.requests))

    async def add_call(self, call: ToolCall) -> None:
        """Log it; wait forever in an endless run."""
        self.calls.append(call)
        if self.answered:
            self.after_answer.append(call)
        await self._bounded(len(self.calls))

    def add_reply(self, request: Request, number: int, given: frozenset[str], reply: Reply) -> None:
        """Log it. `number`: of its request, from 1. `given`: as in a DecidedCalls."""
        codec = request.codec or NATIVE
        self.replies.append((codec, reply))
        with contextlib.suppress(Exception):  # another law covers a codec's exceptions
            move = codec.parse(reply)
            self.answered |= isinstance(move, Answer)
            self.decisions.append(DecidedCalls(number, _calls_of(move), given))

    async def _bounded(self, count: int) -> None:
        if count > MAX_CALLS:
            self.endless.set()
            await asyncio.get_running_loop().create_future()


def _calls_of(move: Move) -> tuple[ToolCall, ...]:
    """Return the calls that a move asks for."""
    if isinstance(move, Act):
        return move.calls
    return (move.call,) if isinstance(move, Recovery) and move.call is not None else ()


class LoggingModel(StreamsWhole, WrappedModel):
    """A model that logs every request."""

    def __init__(self, model: Model, log: RunLog, gate: Gate = open_gate) -> None:
        super().__init__(model)
        self.log = log
        self.gate = gate

    async def complete(self, request: Request) -> Reply:
        """Return the model's reply; raises the exceptions of the gate and the model."""
        await self.log.add_request(request)
        number, given = len(self.log.requests), frozenset(self.log.given)
        self.log.in_flight[request.scope] += 1
        try:
            await self.gate("model", number)
            reply = await self.model.complete(request)
        finally:
            self.log.in_flight[request.scope] -= 1
        self.log.add_reply(request, number, given, reply)
        return reply


class _SilentListener:
    """A listener that does nothing."""

    def exchange(self, exchange: MeteredExchange) -> None:
        return None

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        return None


class LoggingToolbox(MeteredToolbox):
    """Tools that log every call, with receipts."""

    def __init__(self, tools: Sequence[Tool], log: RunLog, gate: Gate, tunnel: Tunnel) -> None:
        super().__init__(tools, _SilentListener(), tunnel)
        self.log = log
        self.gate = gate

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Return the observation; raises the exceptions of the gate."""
        await self.log.add_call(call)
        digest = call_digest(call.name, call.arguments)  # before the call: a tool may change what it was given
        self.log.tools_running += 1
        try:
            await self.gate("tool", len(self.log.calls))
            seen = await super().call(call, validate=validate)
            if seen.ok:
                self.log.given.add(digest)
            return seen
        finally:
            self.log.tools_running -= 1


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run and its result."""

    log: RunLog
    result: object
    """The return value of `run`, or the exception that it raised."""
    hung: str = ""
    """The reason why the run was aborted; empty if it ended by itself."""

    @property
    def problem(self) -> str:
        """Why there is no outcome; empty if there is one."""
        if self.hung:
            return f"the run {self.hung}"
        if isinstance(self.result, BaseException):
            return f"run() raised {error_summary(self.result)}"
        return "" if isinstance(self.result, Outcome) else f"run() returned a {type(self.result).__name__}, not an Outcome"

    @property
    def outcome(self) -> Outcome:
        """The outcome; raises Broken if there is none."""
        if isinstance(self.result, Outcome):
            return self.result
        raise Broken(f"{self.problem}; {'it must end by itself' if self.hung else 'run() must return an Outcome'}")

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests as plain JSON, with role and scope; call ids are numbered by their order of appearance."""
        return [request_json(request) for request in self.log.requests]


def limit_s(loop: Loop) -> float:
    """Return the seconds after which a run of a loop counts as hung."""
    return FOREIGN_LIMIT_S if isinstance(loop, ForeignLoop) else LIMIT_S


async def play(loop: Loop, scene: Scene, gate: Gate = open_gate) -> FinishedRun:
    """Run a loop in a scene until it ends, hangs or exceeds the call limit."""
    log = RunLog()
    running = start(loop, scene, log, gate)
    endless = asyncio.create_task(log.endless.wait())
    try:
        await asyncio.wait({running, endless}, timeout=limit_s(loop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        endless.cancel()
    if running.done():
        return FinishedRun(log, running.result() if not running.cancelled() else asyncio.CancelledError())
    at = waiting_at(running)
    await stop(running, GRACE_S)
    if log.endless.is_set():
        return FinishedRun(log, None, f"made more than {MAX_CALLS} calls")
    return FinishedRun(log, None, f"{HUNG} {limit_s(loop):g} s{f' at {at}' if at else ''}")


def start(loop: Loop, scene: Scene, log: RunLog, gate: Gate) -> asyncio.Task[object]:
    """Start a run as a separate task. Its result is the value or exception of `run`; only cancellation propagates."""
    tunnel = Tunnel()
    tools = LoggingToolbox(scene.tools, log, gate, tunnel)
    return asyncio.create_task(_caught(loop, scene.query, tools, LoggingModel(scene.model(tunnel), log, gate)))


async def _caught(loop: Loop, query: Query, tools: LoggingToolbox, model: Model) -> object:
    try:
        result: object = await loop.run(query, tools, model)
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # the boundary to the design under check: a SystemExit must not end the check
        result = error
    if inspect.iscoroutine(result):
        result.close()  # else Python would warn of it in some law that looks at other things
    return result


async def settle() -> None:
    """Let every ready task run."""
    for _ in range(10):
        await asyncio.sleep(0)


# --- requests as text ---


def request_json(request: Request) -> dict[str, Any]:
    """Return a request as plain JSON, with role and scope; call ids are numbered by their order of appearance."""
    numbers: dict[str, str] = {}
    data = request.as_dict() | {"role": request.role.value, "scope": request.scope}
    for message in data["messages"]:
        for call in message.get("tool_calls", ()):
            call["id"] = numbers.setdefault(call["id"], f"#{len(numbers)}")
        if "tool_call_id" in message:
            message["tool_call_id"] = numbers.setdefault(message["tool_call_id"], f"#{len(numbers)}")
    return data


def error_summary(error: BaseException) -> str:
    """Return an exception in words, with the line of the user's code that it came from."""
    at = raised_at(error)
    return f"{cap(f'{type(error).__name__}: {error_text(error)}', MAX_DETAIL_CHARS)}{f' at {at}' if at else ''}"


def not_looked_at(missing: str, runs: Sequence[FinishedRun]) -> NotApplicable:
    """Return that a law could not be looked at. `missing`: what no run came to."""
    why = next((run.problem for run in runs if run.problem), "")
    return NotApplicable(f"could not be looked at: {missing}{f' ({why})' if why else ''}")


def request_text(request: Request) -> str:
    """Return the text of a request's messages."""
    return "\n".join([message.content + "".join(call.arguments for call in message.calls) for message in request.messages])


def first_difference(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> str:
    """Return the first difference between two lists of requests in words."""
    for index, (one, other) in enumerate(zip(first, second, strict=False), 1):
        if one != other:
            parts = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            return f"request {index} differs in its {', '.join(parts)}"
    return f"{counted(len(first), 'request')} against {len(second)}"
