"""What the tests of the declarative face share: models of input and output, tools, replies and a module."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

from whichloop.loops.finish import (
    Module,
    module,
    tool,
)
from whichloop.protocol import (
    Message,
    NativeCall,
    Reply,
    Request,
)


class QuestionInput(BaseModel):
    question: str = Field(description="what is asked")


class AnswerOutput(BaseModel):
    answer: str
    confidence: float = 0.5


@tool
def search(query: str, limit: int = 3) -> list[str]:
    """Search for information."""
    return ["result 1", "result 2"][:limit]


@tool
def fail(x: int = 0) -> str:
    """Always fails."""
    raise ValueError("x must be positive")


def native(name: str, _id: str = "", **arguments: Any) -> NativeCall:
    return NativeCall(_id or f"id_{name}", name, json.dumps(arguments))


def says(*calls: NativeCall, text: str = "") -> Reply:
    return Reply(text, calls, None, "tool_calls")


def finish(answer: Any = "x", **others: Any) -> Reply:
    return says(native("__finish__", answer=answer, **others))


SEARCH = says(native("search", query="q"))

FAIL = says(native("fail"))

BAD = says(native("__finish__", answer=["no text"]))


class Agent(module):
    """You are a research assistant."""

    max_steps = 5
    initial_input = QuestionInput
    final_output = AnswerOutput
    tools = (search, fail)


def agent_of(model_: Any, on_step: Any = None, on_stream: Any = None, base: type[Module] = Agent, **attributes: Any) -> Any:
    """An instance of a subclass made on the spot."""
    hooks = {name: hook for name, hook in (("on_step", on_step), ("on_stream", on_stream)) if hook is not None}
    return type("Made", (base,), {"__doc__": base.__doc__, "model": model_, **hooks, **attributes})()


def assert_legal(messages: tuple[Message, ...]) -> None:
    """Every call has exactly one result, next to it and in order."""
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role != "tool"
        answers = messages[position + 1 : position + 1 + len(message.calls)]
        assert [(answer.role, answer.call_id) for answer in answers] == [("tool", call.id) for call in message.calls]
        position += 1 + len(message.calls)


def contents(request: Request, role: str) -> list[str]:
    return [message.content for message in request.messages if message.role == role]


class Review(module):
    """Review the work."""

    final_output = AnswerOutput
