"""What the tests of the loop of phases share: a model that answers by role, tools, and runs under a time limit."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Literal

from hypothesis import strategies as st

from whichloop.loops.phased import (
    AgentCallbacks,
    Phased,
    Understanding,
)
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    Capabilities,
    Chunk,
    Completion,
    ContextOverflow,
    Move,
    NativeCall,
    Observer,
    Outcome,
    PlanTask,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    RunEvent,
    Tasks,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.events import ReplyChunk

Saying = Move | Reply | str | BaseException | Callable[[Request], Any]

BAD = "{ not json"


class Brain:
    """A Model that is told what to say by role: one saying for ever, or a list whose last is said for ever.

    What it is not told: one task that calls add(1, 2), enough after the first round, all contexts, the answer "done".
    """

    name = "brain"

    def __init__(self, capabilities: Capabilities | None = None, **sayings: Saying | list[Saying]) -> None:
        self.capabilities = capabilities or Capabilities()
        usual: dict[str, list[Saying]] = {
            "understand": [Understanding("a sum", ("one", "two"))],
            "plan": [Tasks((PlanTask("t1", "Add one and two."),), "Add.")],
            "select": [Act("", (ToolCall("add", {"a": 1, "b": 2}),))],
            "reflect": [Completion(True, "It is enough.")],
            "reason": [Text("So it is three.")],
            "summarize": [lambda request: Text(request.messages[1].content)],
            "answer": [Answer("", "done")],
        }
        self.sayings = usual | {role: list(said) if isinstance(said, list) else [said] for role, said in sayings.items()}
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        waiting = self.sayings[request.role.value]
        said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return self.reply(request, said(request) if callable(said) else said)

    def reply(self, request: Request, said: Any) -> Reply:
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, str | Reply):
            return Reply(said) if isinstance(said, str) else said
        assert request.codec is not None
        return request.codec.render(said)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply = await self.complete(request)
        for letter in reply.text:
            yield Chunk(letter)
        yield Chunk(reply=reply)

    @property
    def roles(self) -> list[str]:
        return [request.role.value for request in self.requests]

    def prompts(self, role: str) -> list[str]:
        return [request.messages[1].content for request in self.requests if request.role.value == role]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(text: str = "broken") -> None:
    """Always fails."""
    raise ValueError(text)


def box(*functions: Callable[..., Any]) -> Toolbox:
    return Toolbox(Tool.from_function(function, blocking=False) for function in (functions or (add, fail)))


def run(loop: Phased, model: Any, *functions: Callable[..., Any], observer: Observer = SILENT, schema: Any = None) -> Outcome:
    outcome: Outcome = run_sync(limited(loop.run(Query("What is 1 + 2?", schema=schema), box(*functions), model, observer)))
    return outcome


async def limited(work: Coroutine[Any, Any, Any]) -> Any:
    """A dead lock is a failure, not a hang."""
    async with asyncio.timeout(30):
        return await work


def plan(*tasks: tuple[str, str] | tuple[str, str, Sequence[str]], kind: Literal["use_tools", "reason"] = "use_tools") -> Tasks:
    return Tasks(tuple(PlanTask(task[0], task[1], kind, tuple(task[2]) if len(task) > 2 else ()) for task in tasks))


def by_task(**calls: Sequence[ToolCall] | str) -> Callable[[Request], Any]:
    """Select: the calls of the task whose id is the request's scope; a text is said as it is."""

    def say(request: Request) -> Any:
        said = calls.get(request.scope, ())
        return Reply("", (NativeCall("1", "add", said),)) if isinstance(said, str) else Act("", tuple(said))

    return say


def adding(a: int, b: int) -> tuple[ToolCall, ...]:
    return (ToolCall("add", {"a": a, "b": b}),)


FAIL = (ToolCall("fail", {}),)

INCOMPLETE = Completion(False, "Two is missing.", ("the number two",))


def statuses(outcome: Outcome) -> dict[str, tuple[str, str | None]]:
    return {task["id"]: (task["status"], task["error"]) for task in outcome.details["tasks"]}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)

WILD: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=20),
    JSON.map(json.dumps),
    st.builds(lambda name, text: Reply("", (NativeCall("1", name, text),)), st.sampled_from(["add", ""]), st.text(max_size=5)),
)

ERRORS: st.SearchStrategy[Any] = st.sampled_from([ProviderError("down"), ContextOverflow("long")])


def sayings(ordinary: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(ordinary, ordinary, ordinary, WILD, ERRORS), min_size=1, max_size=5)


def giving(result: Any) -> Callable[..., Any]:
    def any_(**arguments: Any) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    any_.__name__ = "any"
    return any_


class Shuffled(Brain):
    """Answers requests in flight in random order; two of equal scope are never in flight together."""

    def __init__(self, chance: random.Random, **said: Any) -> None:
        super().__init__(**said)
        self.chance = chance
        self.in_flight: set[str] = set()

    async def complete(self, request: Request) -> Reply:
        assert request.scope not in self.in_flight
        self.in_flight.add(request.scope)
        for _ in range(self.chance.randint(0, 5)):
            await asyncio.sleep(0)
        self.in_flight.remove(request.scope)
        return await super().complete(request)


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


class Listening(Observer):
    streams = True

    def __init__(self) -> None:
        self.text = ""

    def on_event(self, event: RunEvent) -> None:
        if isinstance(event, ReplyChunk) and event.request.role is Role.ANSWER:
            self.text += event.chunk.text


def make_phased(layout: str, **options: Any) -> Phased:
    return Phased(tool_layout="agent" if layout == "agent" else "executor", **options)
