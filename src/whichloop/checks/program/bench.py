"""The test bench: a task, a model that makes one fault, tools, and the log of a run."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.checks.loop.scene import bench_script
from whichloop.datasets.task import Task
from whichloop.models.faults import Fault, FaultPoint, disturb, spoiled_forms, spoiled_reply
from whichloop.models.metering import Meter, MeteredModel, MeteredToolbox
from whichloop.models.outages import PROVIDER_FAULTS
from whichloop.models.profiles import Abilities, load_profile
from whichloop.models.receipts import call_digest
from whichloop.models.scripted import Script, Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import LATE, Tunnel
from whichloop.protocol import BudgetExceeded, Observation, Query, Reply, Role, Tool, ToolCall, ToolSpec
from whichloop.protocol.model import Model, ProviderError, Request, StreamsWhole, WrappedModel
from whichloop.protocol.moves import Act, Answer, Codec, Inexpressible, WireError
from whichloop.protocol.plan import Plan, PlannedCall, Ref
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.wire import to_json

from .agent_faults import AgentFault, BenchTask, LoggedRequest, telling_request

PROVIDER = {
    "rate_limit": "rate_limit", "server_error_once": "server", "server_error_always": "server",
    "dropped": "dropped", "garbled": "garbled", "cut_stream": "cut",
}  # fmt: skip
"""Fault → what it is of the profiles' faults of providers."""
CONTEXT_TOKENS = 128_000
"""Longest request of the model, in estimated tokens."""
LOG_ERRORS = 1729
JAMMED = "the pump is jammed"
IN_THE_BOX = 1_207
"""Dollars in the cash box."""


def _task(name: str, question: str, answer: int, gives: Ref, *calls: PlannedCall) -> Task:
    return Task(name, Query(question), answer, plan=Plan(calls, gives))


TASKS: Mapping[BenchTask, Task] = {
    "chain": _task(
        "chain",
        "Add 17 and 25, then add 1000 to that sum, then multiply what came of it by 3. State the number.",
        3126,
        Ref("product"),
        PlannedCall("sum", "add", {"a": 17, "b": 25}, "Add 17 and 25."),
        PlannedCall("more", "add", {"a": Ref("sum"), "b": 1000}, "Add 1000 to that sum."),
        PlannedCall("product", "multiply", {"a": Ref("more"), "b": 3}, "Multiply what came of it by 3."),
    ),
    "pair": _task(
        "pair",
        "Add 3407 and 18, multiply 512 by 6, and add the two results. State the number.",
        6497,
        Ref("both"),
        PlannedCall("left", "add", {"a": 3407, "b": 18}, "Add 3407 and 18."),
        PlannedCall("right", "multiply", {"a": 512, "b": 6}, "Multiply 512 by 6."),
        PlannedCall("both", "add", {"a": Ref("left"), "b": Ref("right")}, "Add the two results."),
    ),
    "box": _task(
        "box",
        "Put 250 dollars into the cash box, and then count what it holds. State the number.",
        IN_THE_BOX + 250,
        Ref("count", ("dollars",)),
        PlannedCall("put", "put_into_box", {"dollars": 250}, "Put 250 dollars into the box."),
        PlannedCall("count", "count_box", {}, "Count what the box holds.", after=("put",)),
    ),
    "log": _task(
        "log",
        "How many errors does the log of Monday count? Read it, and state the number.",
        LOG_ERRORS,
        Ref("log", ("errors",)),
        PlannedCall("log", "read_log", {"day": "Monday"}, "Read Monday's log."),
    ),
}


@dataclass(slots=True)
class AgentLog:
    """Everything that an agent does in one run."""

    max_requests: int
    asked: list[LoggedRequest] = field(default_factory=list)
    called: int = 0
    """Calls of tools."""
    gave: Counter[int] = field(default_factory=Counter)
    """Number of requests before them → calls that gave results."""
    struck: int | None = None
    """0-based place of the request whose reply the fault struck, or before whose calls it did."""
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    """A tool hangs."""

    def strike(self) -> None:
        """Note that the fault has struck, at the last request."""
        if self.struck is None:
            self.struck = len(self.asked) - 1

    def tool_call(self, call: ToolCall, observation: Observation, fault: str | None) -> None:
        self.called += 1
        self.gave[len(self.asked)] += observation.ok


def _tools(task: BenchTask, fault: str, log: AgentLog) -> tuple[Tool, ...]:
    """Return the tools of a task, of which one raises or hangs where the fault has it."""

    async def strike(tool: str) -> None:
        is_hit = tool == "multiply" if fault.startswith("one_of_two") else fault in ("huge_result", "tool_raises", "tool_hangs")
        if log.struck is not None or not is_hit:
            return
        log.strike()
        if fault in ("tool_raises", "one_of_two_fails"):
            raise RuntimeError(JAMMED)
        if fault in ("tool_hangs", "one_of_two_hangs"):
            log.hung.set()
            await asyncio.get_running_loop().create_future()

    async def add(a: int, b: int) -> int:
        """The sum of two whole numbers."""
        await strike("add")
        return a + b

    async def multiply(a: int, b: int) -> int:
        """The product of two whole numbers."""
        await strike("multiply")
        return a * b

    async def read_log(day: str) -> dict[str, Any]:
        """The log of a day: the number of its errors, and its lines."""
        await strike("read_log")
        return {"errors": LOG_ERRORS, "lines": f"{day} INFO nothing to see\n" * (40_000 if fault else 2)}

    in_the_box = IN_THE_BOX

    async def put_into_box(dollars: int) -> str:
        """Put money into the cash box."""
        nonlocal in_the_box
        in_the_box += dollars
        return "done"

    async def count_box() -> dict[str, int]:
        """The dollars that the cash box holds now."""
        return {"dollars": in_the_box}

    functions = {"log": (read_log,), "box": (put_into_box, count_box)}.get(task, (add, multiply))
    for function in functions:
        function.__qualname__ = function.__name__  # Python's own errors name it, and an agent may show them
    return tuple(Tool.from_function(function, blocking=False) for function in functions)


def tool_descriptions(task: BenchTask) -> dict[str, str]:
    return {tool.spec.name: tool.spec.description for tool in _tools(task, "", AgentLog(0))}


class _UnlimitedTools(MeteredToolbox):
    """Tools without limits: those are the agent's."""

    def __init__(self, tools: tuple[Tool, ...], log: AgentLog, tunnel: Tunnel) -> None:
        super().__init__(tools, log.tool_call, tunnel, time_limit_s=None)
        self.max_chars = None

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Run a call. An error has no receipt: to the model it is no result, and it calls again."""
        seen = await super().call(call, validate=validate)
        return seen if seen.ok else replace(seen, data=strip_receipts(seen.data))


def spoiled(fault: str, codec: Codec, move: Act, reply: Reply, tools: Mapping[str, ToolSpec]) -> Reply | None:
    """Return a reply with calls as a fault leaves it; None if its format has no room for the fault."""
    first, rest = (reply.calls[0], reply.calls[1:]) if reply.calls else (None, ())
    match fault:
        case "missing_argument" | "extra_argument" | "wrong_type" | "unknown_tool":
            disturbed = disturb(f"decision.{fault}", move, {}, tools)[0]
            made = _rendered(codec, disturbed, reply) if isinstance(disturbed, Act) else None
            return None if disturbed == move else made
        case "cut_json" | "cut_length":
            if first is not None:
                cut = replace(first, arguments=first.arguments[: len(first.arguments) // 2])
                cut_reply, absorbed = replace(reply, calls=(cut, *rest)), False
            else:
                cut_reply, absorbed = spoiled_reply("wire.truncated", codec, move, reply)
            finish = "length" if fault == "cut_length" else reply.finish_reason
            return None if absorbed else replace(cut_reply, finish_reason=finish)
        case "list_arguments":
            arguments = dict(move.calls[0].arguments)
            as_list = json.dumps(list(arguments.values()))
            if first is not None:
                return replace(reply, calls=(replace(first, arguments=as_list), *rest))
            forms = (to_json(arguments), json.dumps(arguments), json.dumps(arguments, separators=(",", ":")))
            written = next((form for form in forms if form in reply.text), None)
            return None if written is None else replace(reply, text=reply.text.replace(written, as_list, 1))
        case "duplicate_ids":
            return replace(reply, calls=(first, *(replace(call, id=first.id) for call in rest))) if first and rest else None
        case "empty":
            return spoiled_forms("wire.empty", reply)[0]
        case "prose":
            return replace(
                reply, text="I will work this out step by step, and call a tool for the first step.", calls=(), finish_reason="stop"
            )
        case "refusal":
            return replace(reply, text="I'm sorry, but I can't help with that.", calls=(), finish_reason="content_filter")
    return reply


def _rendered(codec: Codec, move: Act, reply: Reply) -> Reply | None:
    """Return a reply with a move, with its thought or without; None if the format has no room for it."""
    for form in (move, replace(move, thought="")):
        try:
            return replace(codec.render(form), usage=reply.usage)
        except Inexpressible:
            continue
    return None


class FaultyModel(StreamsWhole, WrappedModel):
    """A model that knows how to solve the task, and makes one fault."""

    def __init__(self, script: Script, fault: AgentFault | None, log: AgentLog, tunnel: Tunnel) -> None:
        super().__init__(Scripted(script, tunnel))
        self.script, self.fault, self.log, self.tunnel = script, fault, log, tunnel
        self._last: ToolCall | None = None

    async def complete(self, request: Request) -> Reply:
        """Return a reply. Raises BudgetExceeded at the log's limit of requests, and the errors of the fault."""
        if len(self.log.asked) >= self.log.max_requests:
            raise BudgetExceeded(f"{self.log.max_requests} requests")
        self.log.asked.append(logged := LoggedRequest(request))
        logged.reply = self._with_fault(request, await self.model.complete(request))
        return logged.reply

    def _with_fault(self, request: Request, reply: Reply) -> Reply:
        """Return the reply as the fault, if it strikes here, leaves it. Raises ProviderError."""
        fault, codec, log = self.fault, request.codec or NATIVE, self.log
        try:
            move = codec.parse(reply)
        except WireError:
            move = None
        if isinstance(move, Act) and move.calls:
            self._last = move.calls[-1]
        if fault is None:
            return reply
        if fault.strikes == "endless":
            return self._endless(fault, request, codec, reply) if isinstance(move, Answer) else reply
        if log.struck is not None and fault.name != "server_error_always":
            return reply
        is_due = isinstance(move, Act) and len(move.calls) >= (2 if fault.task == "pair" else 1)
        if fault.strikes == "provider" and (is_due or log.struck is not None):
            log.strike()
            kind = f"provider.{PROVIDER[fault.name]}"
            self.tunnel.struck[request.scope] = kind
            trouble, status, says = PROVIDER_FAULTS[kind]
            after = 2.0 if trouble == "rate_limit" else None
            raise ProviderError(says, trouble, status=status, retry_after_s=after, injected=True)
        if fault.strikes not in ("reply", "call", "order") or not isinstance(move, Act) or not is_due:
            return reply
        changed: Reply | None = reply
        if fault.name == "write_and_read":
            changed = _rendered(codec, Act("I should make sure of this.", (*move.calls, ToolCall("count_box", {}))), reply)
        elif fault.strikes != "order":
            changed = spoiled(fault.name, codec, move, reply, self.script.tools)
        if changed is None:
            return reply
        log.strike()
        if fault.strikes == "order":
            digest = call_digest(move.calls[0].name, move.calls[0].arguments)
            self.tunnel.held[digest] = Fault(LATE, FaultPoint(Role.DECIDE, "first"), "after", 1)
        elif fault.strikes == "reply":
            self.tunnel.struck[request.scope] = f"wire.{fault.name}"  # a server must not mend it
        return changed

    def _endless(self, fault: AgentFault, request: Request, codec: Codec, reply: Reply) -> Reply:
        """Return another call in the place of an answer."""
        log = self.log
        if request.role is not Role.DECIDE or codec.max_calls < 1 or self._last is None:
            return reply
        if fault.name == "repeats" and log.struck is not None and telling_request(fault, log.asked, log.struck) is not None:
            return reply
        again = self._last if fault.name == "repeats" else ToolCall("add", {"a": len(log.asked), "b": 1})
        with_call = _rendered(codec, Act("I should make sure of this.", (again,)), reply)
        if with_call is not None:
            log.strike()
        return with_call or reply


@dataclass(frozen=True, slots=True)
class BenchRun:
    task: Task
    model: Model
    tools: MeteredToolbox
    log: AgentLog


async def bench_run(task_name: BenchTask, fault: AgentFault | None, max_requests: int) -> BenchRun:
    """Return a run of a task with one fault, or with none."""
    task, log, tunnel, name = TASKS[task_name], AgentLog(max_requests), Tunnel(), "" if fault is None else fault.name
    true_tools = _tools(task_name, name if task_name == "log" else "", AgentLog(0))
    profile = load_profile("clean").model_copy(update={"abilities": Abilities(context_tokens=CONTEXT_TOKENS)})
    script = await bench_script(task, true_tools, profile=profile)
    model = MeteredModel(FaultyModel(script, fault, log, tunnel), Meter(), tunnel=tunnel)
    return BenchRun(task, model, _UnlimitedTools(_tools(task_name, name, log), log, tunnel), log)
