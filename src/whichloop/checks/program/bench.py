"""The test bench: a task, a model that makes one fault, tools, and the log of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.datasets.task import Task
from whichloop.models.at_once import LATE, digest_of_call
from whichloop.models.faults import Fault, FaultPoint
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, MeteredToolbox
from whichloop.models.profiles import Abilities, load_profile
from whichloop.models.scripted import Script, Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    Codec,
    Model,
    ModelError,
    Observation,
    Plan,
    PlannedCall,
    Query,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    ToolCall,
    WrappedModel,
)
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.receipts import strip_receipts

from ..bench_script import bench_script
from .agent_faults import AgentFault, BenchTask
from .explanation import LoggedRequest, is_told
from .spoiling import provider_error, readable_move, rendered, spoiled

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
            self.tunnel.arm(digest_of_call(move.calls[0]), Fault(LATE, FaultPoint(Role.DECIDE, "first"), "after", 1))
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
