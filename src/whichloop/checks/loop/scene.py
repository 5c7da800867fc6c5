"""The test bench for loops: tasks, a model and tools that log everything, and gates that delay or interrupt a run."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.datasets.validity import replay
from whichloop.models.metering import MeteredToolbox
from whichloop.models.profiles import Profile, load_profile
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.models.scripted import Script, Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Capabilities, ForeignLoop, Loop, Observation, Outcome, Query, Reply, Tool, ToolCall
from whichloop.protocol.model import Model, ModelError, Request, StreamsWhole, WrappedModel
from whichloop.protocol.moves import Act, Answer, Codec, Move, Recovery
from whichloop.protocol.own_code import waiting_at
from whichloop.protocol.plan import Plan, PlannedCall, Ref
from whichloop.protocol.values import counted
from whichloop.runs.trial.watchdog import stop

from ..shared.law import Broken, error_summary
from .random_moves import say

MAX_CALLS = 200
"""Model calls, and tool calls, after which a run counts as endless."""
LIMIT_S = 10.0
GRACE_S = 1.0
"""Seconds that a cancelled run has to end."""
JAMMED = "the frobnicator is jammed"
HUNG = "did not end within"

Kind = Literal["model", "tool"]
Gate = Callable[[Kind, int], Awaitable[None]]
"""A gate awaited before each model and tool call, with the number of calls of that kind so far, including this one."""


async def open_gate(kind: Kind, count: int) -> None:
    """Let everything through."""


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


TOOLS = tuple(Tool.from_function(function, blocking=False) for function in (add, times, dig, jam))

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
    PlannedCall("both", "add", {"a": Ref("left"), "b": Ref("right")}, "Put left and right together."),
)
_TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


def _task(name: str, question: str, answer: Any, calls: Sequence[PlannedCall] = (), gives: Any = None, schema: Any = None) -> Task:
    plan = Plan(tuple(calls), answer if gives is None else gives)
    return Task(name, Query(question, schema=schema), answer, plan=plan)


def chain_of(length: int) -> Task:
    """Return a task of one to three calls, each of which needs the one before."""
    calls, answer = _CHAIN[:length], (42, 1042, 3126)[length - 1]
    return _task("three calls", "What is 17 + 25, raised by a thousand, three times over?", answer, calls, Ref(calls[-1].id))


NO_CALL = _task("no call", "A spider has how many legs? You know that without any help.", 8)
ONE_CALL = _task("one call", "What do seventeen and twenty-five make?", 42, (_SUM,), Ref("sum"))
CHAIN = chain_of(3)
FAILING = _task("failing call", "Can the frobnicator be turned? State yes or no.", "no", (_JAM,))
SCHEMA = _task("schema", "Give the total of 17 and 25 as an object.", {"total": 42}, (_SUM,), {"total": Ref("sum")}, _TOTAL)
APART = _task("calls apart", "Left, right and behind: how many apples?", 37, _APART, Ref("both"))
TASKS = (NO_CALL, ONE_CALL, CHAIN, FAILING, SCHEMA, APART)


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of a run: a query, tools, and the model that answers."""

    query: Query
    model: Callable[[Tunnel], Model]
    """A function that creates the model of a run from the tunnel that it shares with the run's tools."""
    tools: tuple[Tool, ...] = TOOLS


async def bench_script(task: Task, tools: Sequence[Tool], question: str = "", profile: Profile | None = None) -> Script:
    """Return the script of a task with a plan, replayed on these tools. `question`: another wording; `profile`: default `clean`."""
    assert task.plan is not None
    replayed = await replay(task, Suite("bench", "1", (task,), lambda _: StatelessEnvironment(tuple(tools))))
    oracle = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in replayed}
    model, specs = profile or load_profile("clean"), {tool.name: tool.spec for tool in tools}
    return Script(task.plan, oracle, model, 0, task.id, tools=specs, question=question or task.query.text)


async def scripted(task: Task, query: Query | None = None, profile: Profile | None = None) -> Scene:
    """Return a task with the scripted model. `query`: another wording. `profile`: the faults; default: none."""
    question = query or task.query
    script = await bench_script(task, TOOLS, question.text, profile)
    return Scene(question, lambda tunnel: Scripted(script, tunnel))


ModelTurn = Sequence[Move] | Reply | ModelError
"""Moves in order of preference, a reply, or an error to raise."""
TurnPolicy = Callable[[Request, int], ModelTurn]
"""A model's turn at its n-th request, from 1."""


class PolicyModel(StreamsWhole):
    name = "talker"
    capabilities = Capabilities()

    def __init__(self, policy: TurnPolicy) -> None:
        self.policy, self.count = policy, 0

    async def complete(self, request: Request) -> Reply:
        self.count += 1
        turn = self.policy(request, self.count)
        if isinstance(turn, ModelError):
            raise turn
        return turn if isinstance(turn, Reply) else say(request.codec, turn)


def policy_scene(policy: TurnPolicy, query: Query | None = None, tools: tuple[Tool, ...] = TOOLS) -> Scene:
    return Scene(query or Query("Dig until there is enough."), lambda tunnel: PolicyModel(policy), tools)


@dataclass(slots=True)
class RunLog:
    """A log of everything that a loop does in one run."""

    requests: list[Request] = field(default_factory=list)
    replies: list[tuple[Codec, Reply]] = field(default_factory=list)
    """Replies, with the codecs of their requests."""
    decided: Counter[str] = field(default_factory=Counter)
    """Tool → calls of it that the model decided on."""
    again: list[tuple[int, ToolCall]] = field(default_factory=list)
    """Calls that the model decided on although the loop had their results, with the number of the request, from 1."""
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

    async def bounded(self, count: int) -> None:
        """Wait forever in an endless run."""
        if count > MAX_CALLS:
            self.endless.set()
            await asyncio.get_running_loop().create_future()


class LoggingModel(StreamsWhole, WrappedModel):
    def __init__(self, model: Model, log: RunLog, gate: Gate = open_gate) -> None:
        super().__init__(model)
        self.log, self.gate = log, gate

    async def complete(self, request: Request) -> Reply:
        log = self.log
        log.requests.append(request)
        number, given = len(log.requests), set(log.given)
        if log.in_flight[request.scope] > 0 and log.clash is None:
            log.clash = request.scope
        await log.bounded(number)
        log.in_flight[request.scope] += 1
        try:
            await self.gate("model", number)
            reply = await self.model.complete(request)
        finally:
            log.in_flight[request.scope] -= 1
        codec = request.codec or NATIVE
        log.replies.append((codec, reply))
        with contextlib.suppress(Exception):  # another law covers a codec's exceptions
            move = codec.parse(reply)
            log.answered |= isinstance(move, Answer)
            calls = move.calls if isinstance(move, Act) else (move.call,) if isinstance(move, Recovery) and move.call else ()
            log.decided.update(call.name for call in calls)
            log.again += [(number, call) for call in calls if call_digest(call.name, call.arguments) in given]
        return reply


class LoggingToolbox(MeteredToolbox):
    """Tools that log every call, with receipts."""

    def __init__(self, tools: Sequence[Tool], log: RunLog, gate: Gate, tunnel: Tunnel) -> None:
        super().__init__(tools, tunnel=tunnel)
        self.log, self.gate = log, gate

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        log = self.log
        log.calls.append(call)
        if log.answered:
            log.after_answer.append(call)
        await log.bounded(len(log.calls))
        digest = call_digest(call.name, call.arguments)  # before the call: a tool may change what it was given
        log.tools_running += 1
        try:
            await self.gate("tool", len(log.calls))
            seen = await super().call(call, validate=validate)
            if seen.ok:
                log.given.add(digest)
            return seen
        finally:
            log.tools_running -= 1


@dataclass(frozen=True, slots=True)
class FinishedRun:
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
        raise self.broken()

    def broken(self, *, ends: bool = False) -> Broken:
        """Return what says that there is no outcome."""
        return Broken(f"{self.problem}; {'it must end by itself' if self.hung else 'run() must return an Outcome'}", ends=ends)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [request_json(request) for request in self.log.requests]


def limited(loop: Loop) -> Loop:
    """Return a fresh instance with a limit that suffices for every task of the bench."""
    return loop.with_step_limit(max(len(task.plan.calls) for task in TASKS if task.plan) + 3)


def limit_s(loop: Loop) -> float:
    """Return the seconds after which a run counts as hung; a foreign loop's program may have to be imported first."""
    return 120.0 if isinstance(loop, ForeignLoop) else LIMIT_S


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


async def solve(loop: Loop, task: Task, gate: Gate = open_gate, profile: Profile | None = None) -> FinishedRun:
    """Run a loop on a task with room for every step."""
    return await play(limited(loop), await scripted(task, profile=profile), gate)


def start(loop: Loop, scene: Scene, log: RunLog, gate: Gate) -> asyncio.Task[object]:
    """Start a run as a separate task. Its result is the value or exception of `run`; only cancellation propagates."""
    tunnel = Tunnel()
    tools, model = LoggingToolbox(scene.tools, log, gate, tunnel), LoggingModel(scene.model(tunnel), log, gate)

    async def caught() -> object:
        try:
            result: object = await loop.run(scene.query, tools, model)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # the boundary to the design under check: a SystemExit must not end the check
            result = error
        if inspect.iscoroutine(result):
            result.close()  # else Python would warn of it in some law that looks at other things
        return result

    return asyncio.create_task(caught())


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


def request_text(request: Request) -> str:
    return "\n".join([message.content + "".join(call.arguments for call in message.calls) for message in request.messages])


def difference(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> str:
    """Return the first difference between two lists of requests in words; empty if there is none."""
    for index, (one, other) in enumerate(zip(first, second, strict=False), 1):
        if names := ", ".join(name for name in one | other if one.get(name) != other.get(name)):
            return f"request {index} differs in its {names}"
    return "" if len(first) == len(second) else f"{counted(len(first), 'request')} against {len(second)}"
