"""What the tests of the finish loop share: replies, tools, models of input and output, and runs of both faces."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.loops.helpers import add
from whichloop.loops.finish import Finish, Module, module, tool
from whichloop.protocol import SILENT, Message, NativeCall, Observer, Outcome, Query, Reply, Request, Tool, Toolbox, run_sync

VERDICT = {
    "type": "object",
    "properties": {"sentiment": {"type": "string"}, "score": {"type": "number"}},
    "required": ["sentiment", "score"],
    "additionalProperties": False,
}
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def risky(x: int) -> str:
    """Wants a positive number."""
    if x < 0:
        raise ValueError("x must be positive")
    return "success"


@tool
def search(query: str, limit: int = 3) -> list[str]:
    """Search for information."""
    return ["result 1", "result 2"][:limit]


@tool
def fail(x: int = 0) -> str:
    """Always fails."""
    raise ValueError("x must be positive")


def native(name: str, arguments: Any = "{}", call_id: str = "") -> NativeCall:
    """A call; arguments that are no text are written as JSON."""
    return NativeCall(call_id or f"id_{name}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))


def says(*calls: NativeCall, text: str = "") -> Reply:
    return Reply(text, calls, None, "tool_calls")


def finish(answer: Any = "x", **others: Any) -> Reply:
    return says(native("__finish__", {"answer": answer, **others}))


ADD = says(native("add", {"a": 1, "b": 2}))
NOPE = says(native("nope"))
SEARCH = says(native("search", {"query": "q"}))
FAIL = says(native("fail"))
BAD = says(native("__finish__", {"answer": ["no text"]}))
GOOD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": "early"}))
XML = Reply("<output><answer>x</answer></output>")


def run(
    loop: Finish, model: Any, *functions: Tool | Callable[..., Any], schema: Any = None, observer: Observer = SILENT
) -> Outcome:
    tools = Toolbox(functions) if functions else _own_tools()
    return run_sync(loop.run(Query("Q", schema=schema), tools, model, observer))


@cache
def _own_tools() -> Toolbox:
    """The tools of a test that names none: to read their signatures takes as long as a run."""
    return Toolbox((add, risky))


def steps(**options: Any) -> Finish:
    return Finish(**{"max_steps": 5} | options)


class QuestionInput(BaseModel):
    question: str = Field(description="what is asked")


class AnswerOutput(BaseModel):
    answer: str
    confidence: float = 0.5


class Agent(module):
    """You are a research assistant."""

    max_steps = 5
    initial_input = QuestionInput
    final_output = AnswerOutput
    tools = (search, fail)


class Review(module):
    """Review the work."""

    final_output = AnswerOutput


def agent_of(model_: Any, on_step: Any = None, on_stream: Any = None, base: type[Module] = Agent, **attributes: Any) -> Any:
    """An instance of a subclass made on the spot."""
    hooks = {name: hook for name, hook in (("on_step", on_step), ("on_stream", on_stream)) if hook is not None}
    return type("Made", (base,), {"__doc__": base.__doc__, "model": model_, **hooks, **attributes})()


def contents(request: Request, role: str) -> list[str]:
    return [message.content for message in request.messages if message.role == role]


def results(request: Request) -> list[str]:
    """The results of tools that a request shows."""
    return contents(request, "tool")


def offered(request: Request) -> list[str]:
    return [spec.name for spec in request.tools]


def assert_legal(messages: tuple[Message, ...]) -> None:
    """Every call has exactly one result, next to it and in order."""
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role != "tool"
        answers = messages[position + 1 : position + 1 + len(message.calls)]
        assert [(answer.role, answer.call_id) for answer in answers] == [("tool", call.id) for call in message.calls]
        position += 1 + len(message.calls)
