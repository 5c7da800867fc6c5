"""What the tests of design 1 share: a model that answers by role, tools, listeners, and runs under a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from tests.loops.helpers import Streaming, add
from whichloop.loops.phased import AgentCallbacks, Phased, PhaseTask, TaskStatus, ToolCallStatus, ToolExecutor, ToolExecutorOptions
from whichloop.protocol import SILENT, Observer, Outcome, Query, Request, Tool, Toolbox, run_sync
from whichloop.protocol.chat import Capabilities, NativeCall, Reply
from whichloop.protocol.moves import Act, Answer, Completion, PlanTask, Tasks, Text, Understanding
from whichloop.protocol.tool_calls import ToolCall

BAD = "{ not json"
INCOMPLETE = Completion(False, "Two is missing.", ("the number two",))
FAIL = (ToolCall("fail", {}),)
LAYOUTS: tuple[Literal["executor", "agent"], ...] = ("executor", "agent")


class Brain(Streaming):
    """A model that is told what to say by role: one saying for ever, or a list whose last is said for ever.

    A saying is what a Script says. What it is not told: one task that calls add(1, 2), enough after the first round, all contexts,
    the answer "done".
    """

    def __init__(self, capabilities: Capabilities | None = None, **sayings: Any) -> None:
        super().__init__(then=self._said, size=1)
        self.capabilities = capabilities or Capabilities()
        usual: dict[str, list[Any]] = {
            "understand": [Understanding("a sum", ("one", "two"))],
            "plan": [Tasks((PlanTask("t1", "Add one and two."),), "Add.")],
            "select": [Act("", adding(1, 2))],
            "reflect": [Completion(True, "It is enough.")],
            "reason": [Text("So it is three.")],
            "summarize": [lambda request: Text(request.messages[1].content)],
            "answer": [Answer("", "done")],
        }
        self.sayings = usual | {role: list(said) if isinstance(said, list) else [said] for role, said in sayings.items()}

    def _said(self, request: Request) -> Any:
        waiting = self.sayings[request.role.value]
        said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return said(request) if callable(said) else said

    def prompts(self, role: str) -> list[str]:
        return [request.messages[1].content for request in self.requests if request.role.value == role]


def fail(text: str = "broken") -> None:
    """Always fails."""
    raise ValueError(text)


async def hang() -> None:
    """Never ends by itself."""
    await asyncio.Event().wait()


def adding(a: int, b: int) -> tuple[ToolCall, ...]:
    return (ToolCall("add", {"a": a, "b": b}),)


def pure(*functions: Callable[..., Any]) -> list[Tool]:
    return [Tool.from_function(function, blocking=False) for function in functions or (add, fail)]


def box(*functions: Callable[..., Any]) -> Toolbox:
    return Toolbox(pure(*functions))


def run(loop: Phased, model: Any, *functions: Callable[..., Any], observer: Observer = SILENT, schema: Any = None) -> Outcome:
    outcome: Outcome = finished(loop.run(Query("What is 1 + 2?", schema=schema), box(*functions), model, observer))
    return outcome


async def limited(work: Coroutine[Any, Any, Any]) -> Any:
    """A dead lock is a failure, not a hang; and nothing is left running."""
    async with asyncio.timeout(30):
        done = await work
    assert len(asyncio.all_tasks()) == 1
    return done


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    return run_sync(limited(work))


def plan(*tasks: tuple[str, str] | tuple[str, str, Sequence[str]], kind: Literal["use_tools", "reason"] = "use_tools") -> Tasks:
    return Tasks(tuple(PlanTask(task[0], task[1], kind, tuple(task[2]) if len(task) > 2 else ()) for task in tasks))


def by_task(**calls: Sequence[ToolCall] | str) -> Callable[[Request], Any]:
    """Select: the calls of the task whose id is the request's scope; a text is the arguments of a call."""

    def say(request: Request) -> Any:
        said = calls.get(request.scope, ())
        return Reply("", (NativeCall("1", "add", said),)) if isinstance(said, str) else Act("", tuple(said))

    return say


def statuses(outcome: Outcome) -> dict[str, tuple[str, str | None]]:
    return {task["id"]: (task["status"], task["error"]) for task in outcome.details["tasks"]}


class CallbackLog(AgentCallbacks):
    """Keeps the name and arguments of every callback."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return object.__getattribute__(self, name)
        return lambda *args: self.heard.append((name, args))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [args for heard, args in self.heard if heard == name]

    @property
    def updates(self) -> list[tuple[int, str, str | None, str | None]]:
        return [(place, str(status), *rest) for _, place, status, *rest in self.of("on_tool_call_update")]


def executor(*functions: Callable[..., Any], **options: Any) -> ToolExecutor:
    return ToolExecutor(ToolExecutorOptions(pure(*functions), **options))


def task(*calls: tuple[str, dict[str, Any]], name: str = "t1") -> PhaseTask:
    return PhaseTask(name, "Do it.", toolCalls=[ToolCallStatus(tool, args) for tool, args in calls])


ADD = ("add", {"a": 1, "b": 2})


def ended(work: PhaseTask) -> list[tuple[TaskStatus, str | None, str | None]]:
    """What has become of each call."""
    return [(call.status, call.output, call.error) for call in work.toolCalls or ()]
