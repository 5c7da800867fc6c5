"""The test bench: a task, a model that makes one fault, tools, and the log of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.checks.shared.bench_script import bench_script
from whichloop.datasets.task import Task
from whichloop.models.at_once import LATE
from whichloop.models.faults import Fault, FaultPoint, disturb, emptied, spoiled_reply
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, MeteredToolbox
from whichloop.models.outages import PROVIDER_FAULTS
from whichloop.models.profiles import Abilities, load_profile
from whichloop.models.receipts import call_digest
from whichloop.models.scripted import Script, Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    Codec,
    Inexpressible,
    Model,
    ModelError,
    Move,
    Observation,
    Plan,
    PlannedCall,
    ProviderError,
    Query,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    ToolCall,
    ToolSpec,
    WireError,
    WrappedModel,
)
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.wire import to_json

from .agent_faults import AgentFault, BenchTask
from .explanation import LoggedRequest, is_told

PROSE = "I will work this out step by step, and call a tool for the first step."
REFUSAL = "I'm sorry, but I can't help with that."

PROVIDER: Mapping[str, str] = {
    "rate_limit": "provider.rate_limit",
    "server_error_once": "provider.server",
    "server_error_always": "provider.server",
    "dropped": "provider.dropped",
    "garbled": "provider.garbled",
    "cut_stream": "provider.cut",
}
"""Fault → the kind of the profiles that it is on the wire."""
RETRY_AFTER_S = 2.0

_DECISIONS = {
    "missing_argument": "decision.missing_argument",
    "extra_argument": "decision.extra_argument",
    "wrong_type": "decision.wrong_type",
    "unknown_tool": "decision.unknown_tool",
}


def provider_error(fault: str) -> tuple[ProviderError, str]:
    """Return the error of a provider's fault, and its kind on the wire."""
    kind = PROVIDER[fault]
    trouble, status, says = PROVIDER_FAULTS[kind]
    after = RETRY_AFTER_S if trouble == "rate_limit" else None
    return ProviderError(says, trouble, status=status, retry_after_s=after, injected=True), kind


def readable_move(codec: Codec, reply: Reply) -> Move | None:
    """Return the move of a reply; None for one that cannot be read."""
    try:
        return codec.parse(reply)
    except WireError:
        return None


def spoiled(fault: str, codec: Codec, move: Act, reply: Reply, tools: Mapping[str, ToolSpec]) -> Reply | None:
    """Return a reply with calls as a fault leaves it; None if its format has no room for the fault."""
    if fault in _DECISIONS:
        return _disturbed(_DECISIONS[fault], codec, move, reply, tools)
    match fault:
        case "cut_json" | "cut_length":
            return _cut(codec, move, reply, "length" if fault == "cut_length" else None)
        case "list_arguments":
            return _with_list(move, reply)
        case "duplicate_ids":
            first, *rest = reply.calls or (None,)
            return replace(reply, calls=(first, *(replace(call, id=first.id) for call in rest))) if first and rest else None
        case "empty":
            return emptied(reply)
        case "prose":
            return replace(reply, text=PROSE, calls=(), finish_reason="stop")
        case "refusal":
            return replace(reply, text=REFUSAL, calls=(), finish_reason="content_filter")
    return reply


def rendered(codec: Codec, calls: tuple[ToolCall, ...], reply: Reply) -> Reply | None:
    """Return a reply that makes these calls; None if the format has no room for them."""
    for thought in ("I should make sure of this.", ""):
        try:
            made = codec.render(Act(thought, calls))
        except Inexpressible:
            continue
        return replace(made, usage=reply.usage)
    return None


def _disturbed(kind: str, codec: Codec, move: Act, reply: Reply, tools: Mapping[str, ToolSpec]) -> Reply | None:
    for disturbed in disturb(kind, move, {}, tools):
        try:
            return None if disturbed == move else replace(codec.render(disturbed), usage=reply.usage)
        except Inexpressible:
            continue
    return None


def _cut(codec: Codec, move: Act, reply: Reply, finish: str | None) -> Reply | None:
    """Cut the arguments of the first call, or the text that the call is written in."""
    if reply.calls:
        first, *rest = reply.calls
        cut = replace(first, arguments=first.arguments[: len(first.arguments) // 2])
        cut_reply = replace(reply, calls=(cut, *rest))
    else:
        cut_reply, absorbed = spoiled_reply("wire.truncated", codec, move, reply)
        if absorbed:
            return None
    return replace(cut_reply, finish_reason="length" if finish else reply.finish_reason)


def _with_list(move: Act, reply: Reply) -> Reply | None:
    """Write the first call's arguments as a list of their values."""
    arguments = dict(move.calls[0].arguments)
    values = list(arguments.values())
    if reply.calls:
        first, *rest = reply.calls
        return replace(reply, calls=(replace(first, arguments=json.dumps(values)), *rest))
    for written in _writings(arguments):
        if written in reply.text:
            return replace(reply, text=reply.text.replace(written, json.dumps(values), 1))
    return None


def _writings(arguments: Mapping[str, object]) -> Iterator[str]:
    yield to_json(dict(arguments))
    yield json.dumps(arguments)
    yield json.dumps(arguments, separators=(",", ":"))


CONTEXT_TOKENS = 128_000
"""Longest request of the model, in estimated tokens."""
LOG_LINES = 40_000
"""Lines of the long log: about a million characters, which no model's context of CONTEXT_TOKENS holds."""
LOG_ERRORS = 1729
JAMMED = "the pump is jammed"
IN_THE_BOX = 1_207
"""Dollars in the cash box."""


# --- what is asked ---

_SUM = PlannedCall("sum", "add", {"a": 17, "b": 25}, "Add 17 and 25.")
_MORE = PlannedCall("more", "add", {"a": Ref("sum"), "b": 1000}, "Add 1000 to that sum.")
_PRODUCT = PlannedCall("product", "multiply", {"a": Ref("more"), "b": 3}, "Multiply what came of it by 3.")
_LEFT = PlannedCall("left", "add", {"a": 3407, "b": 18}, "Add 3407 and 18.")
_RIGHT = PlannedCall("right", "multiply", {"a": 512, "b": 6}, "Multiply 512 by 6.")
_BOTH = PlannedCall("both", "add", {"a": Ref("left"), "b": Ref("right")}, "Add the two results.")
_PUT = PlannedCall("put", "put_into_box", {"dollars": 250}, "Put 250 dollars into the box.")
_COUNT = PlannedCall("count", "count_box", {}, "Count what the box holds.", after=("put",))
_LOG = PlannedCall("log", "read_log", {"day": "Monday"}, "Read Monday's log.")

TASKS: Mapping[BenchTask, Task] = {
    "chain": Task(
        "chain",
        Query("Add 17 and 25, then add 1000 to that sum, then multiply what came of it by 3. State the number."),
        3126,
        plan=Plan((_SUM, _MORE, _PRODUCT), Ref("product")),
    ),
    "pair": Task(
        "pair",
        Query("Add 3407 and 18, multiply 512 by 6, and add the two results. State the number."),
        6497,
        plan=Plan((_LEFT, _RIGHT, _BOTH), Ref("both")),
    ),
    "box": Task(
        "box",
        Query("Put 250 dollars into the cash box, and then count what it holds. State the number."),
        IN_THE_BOX + 250,
        plan=Plan((_PUT, _COUNT), Ref("count", ("dollars",))),
    ),
    "log": Task(
        "log",
        Query("How many errors does the log of Monday count? Read it, and state the number."),
        LOG_ERRORS,
        plan=Plan((_LOG,), Ref("log", ("errors",))),
    ),
}


# --- the log ---


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call of a tool, as the agent saw it."""

    after: int
    """Number of requests before it."""
    call: ToolCall
    seen: Observation


@dataclass(slots=True)
class AgentLog:
    """Everything that an agent does in one run."""

    max_requests: int
    asked: list[LoggedRequest] = field(default_factory=list)
    called: list[LoggedCall] = field(default_factory=list)
    struck: int | None = None
    """0-based place of the request whose reply the fault struck, or before whose calls it did."""
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    """A tool hangs."""

    def strike(self) -> None:
        """Note that the fault has struck, at the last request."""
        if self.struck is None:
            self.struck = len(self.asked) - 1

    def exchange(self, exchange: MeteredExchange) -> None:
        """Do nothing: the model logs its requests when they come."""

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        self.called.append(LoggedCall(len(self.asked), call, seen))


# --- tools ---


class _ToolFault:
    """What befalls the tools of one run."""

    def __init__(self, fault: AgentFault | None, log: AgentLog) -> None:
        self.fault = "" if fault is None else fault.name
        self.log = log

    async def strike(self, tool: str) -> None:
        """Raise or hang where the fault has it."""
        if self.log.struck is not None:
            return
        if self.fault == "huge_result":
            self.log.strike()
        elif self.fault == "tool_raises" or (self.fault == "one_of_two_fails" and tool == "multiply"):
            self.log.strike()
            raise RuntimeError(JAMMED)
        elif self.fault == "tool_hangs" or (self.fault == "one_of_two_hangs" and tool == "multiply"):
            self.log.strike()
            self.log.hung.set()
            await asyncio.get_running_loop().create_future()


def _tools(task: BenchTask, fault: _ToolFault) -> tuple[Tool, ...]:
    """Return the tools of a task."""

    async def add(a: int, b: int) -> int:
        """The sum of two whole numbers."""
        await fault.strike("add")
        return a + b

    async def multiply(a: int, b: int) -> int:
        """The product of two whole numbers."""
        await fault.strike("multiply")
        return a * b

    async def read_log(day: str) -> dict[str, Any]:
        """The log of a day: the number of its errors, and its lines."""
        await fault.strike("read_log")
        return {"errors": LOG_ERRORS, "lines": f"{day} INFO nothing to see\n" * (LOG_LINES if fault.fault else 2)}

    held = IN_THE_BOX

    async def put_into_box(dollars: int) -> str:
        """Put money into the cash box."""
        nonlocal held
        held += dollars
        return "done"

    async def count_box() -> dict[str, int]:
        """The dollars that the cash box holds now."""
        return {"dollars": held}

    of_task = {"log": (read_log,), "box": (put_into_box, count_box)}
    tools = []
    for function in of_task.get(task, (add, multiply)):
        function.__qualname__ = function.__name__  # Python's own errors name it, and an agent may show them
        tools.append(Tool.from_function(function, blocking=False))
    return tuple(tools)


def tool_descriptions(task: BenchTask) -> dict[str, str]:
    """Return what each tool of a task is described as, by its name."""
    return {tool.spec.name: tool.spec.description for tool in _tools(task, _ToolFault(None, AgentLog(0)))}


class _UnlimitedTools(MeteredToolbox):
    """Tools without limits: those are the agent's."""

    def __init__(self, tools: tuple[Tool, ...], log: AgentLog, tunnel: Tunnel) -> None:
        super().__init__(tools, log, tunnel, time_limit_s=None)
        self.max_chars = None

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Run a call. An error has no receipt: to the model it is no result, and it calls again."""
        seen = await super().call(call, validate=validate)
        return seen if seen.ok else replace(seen, data=strip_receipts(seen.data))


# --- the model ---


class FaultyModel(StreamsWhole, WrappedModel):
    """A model that knows how to solve the task, and makes one fault."""

    def __init__(self, script: Script, fault: AgentFault | None, log: AgentLog, tunnel: Tunnel) -> None:
        super().__init__(Scripted(script, tunnel))
        self.script = script
        self.fault = fault
        self.log = log
        self.tunnel = tunnel
        self._last: ToolCall | None = None

    async def complete(self, request: Request) -> Reply:
        """Return a reply. Raises BudgetExceeded at the log's limit of requests, and the errors of the fault."""
        if len(self.log.asked) >= self.log.max_requests:
            raise BudgetExceeded(f"{self.log.max_requests} requests")
        logged = LoggedRequest(request)
        self.log.asked.append(logged)
        try:
            logged.reply = self._with_fault(request, await self.model.complete(request))
        except ModelError as error:
            logged.error = error
            raise
        return logged.reply

    def _with_fault(self, request: Request, reply: Reply) -> Reply:
        """Return the reply as the fault, if it strikes here, leaves it. Raises ProviderError."""
        fault, codec = self.fault, request.codec or NATIVE
        move = readable_move(codec, reply)
        if isinstance(move, Act) and move.calls:
            self._last = move.calls[-1]
        if fault is None:
            return reply
        if fault.strikes == "endless":
            return self._endless(fault, request, codec, reply) if isinstance(move, Answer) else reply
        if self.log.struck is not None and fault.name != "server_error_always":
            return reply
        is_due = isinstance(move, Act) and len(move.calls) >= (2 if fault.task == "pair" else 1)
        if fault.strikes == "provider" and (is_due or self.log.struck is not None):
            self.log.strike()
            error, kind = provider_error(fault.name)
            self.tunnel.mark_struck(request, kind)
            raise error
        if fault.strikes not in ("reply", "call", "order") or not is_due:
            return reply
        assert isinstance(move, Act)
        if fault.strikes == "order":
            with_both: Reply | None = reply
            if fault.name == "write_and_read":
                with_both = rendered(codec, (*move.calls, ToolCall(_COUNT.tool, {})), reply)
            if with_both is None:
                return reply
            self.log.strike()
            digest = call_digest(move.calls[0].name, move.calls[0].arguments)
            self.tunnel.held[digest] = Fault(LATE, FaultPoint(Role.DECIDE, "first"), "after", 1)
            return with_both
        spoiled_reply = spoiled(fault.name, codec, move, reply, self.script.tools)
        if spoiled_reply is None:
            return reply
        self.log.strike()
        if fault.strikes == "reply":
            self.tunnel.mark_struck(request, f"wire.{fault.name}")  # a server must not mend it
        return spoiled_reply

    def _endless(self, fault: AgentFault, request: Request, codec: Codec, reply: Reply) -> Reply:
        """Return another call in the place of an answer."""
        if request.role is not Role.DECIDE or codec.max_calls < 1 or self._last is None:
            return reply
        if fault.name == "repeats" and self.log.struck is not None and is_told(fault, self.log.asked, self.log.struck):
            return reply
        again = self._last if fault.name == "repeats" else ToolCall("add", {"a": len(self.log.asked), "b": 1})
        with_call = rendered(codec, (again,), reply)
        if with_call is None:
            return reply
        self.log.strike()
        return with_call


# --- a run ---


@dataclass(frozen=True, slots=True)
class BenchRun:
    """What an agent is given in one run."""

    task: Task
    model: Model
    tools: MeteredToolbox
    log: AgentLog


async def bench_run(task_name: BenchTask, fault: AgentFault | None, max_requests: int) -> BenchRun:
    """Return a run of a task with one fault, or with none."""
    task, log, tunnel = TASKS[task_name], AgentLog(max_requests), Tunnel()
    tools = _tools(task_name, _ToolFault(fault, log))
    true_tools = _tools(task_name, _ToolFault(fault if task_name == "log" else None, AgentLog(0)))
    profile = load_profile("clean").model_copy(update={"abilities": Abilities(context_tokens=CONTEXT_TOKENS)})
    script = await bench_script(task, true_tools, profile=profile)
    model = MeteredModel(FaultyModel(script, fault, log, tunnel), Meter(), log, tunnel)
    return BenchRun(task, model, _UnlimitedTools(tools, log, tunnel), log)
