"""What the tests of the finish loop share: native replies, a tool, and runs of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from whichloop.loops.finish import Finish
from whichloop.protocol import (
    SILENT,
    NativeCall,
    Observer,
    Outcome,
    Query,
    Reply,
    Tool,
    Toolbox,
    run_sync,
)

VERDICT = {
    "type": "object",
    "properties": {"sentiment": {"type": "string"}, "score": {"type": "number"}},
    "required": ["sentiment", "score"],
    "additionalProperties": False,
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def risky(x: int) -> str:
    """Wants a positive number."""
    if x < 0:
        raise ValueError("x must be positive")
    return "success"


def native(tool: str, arguments: Any, name: str = "") -> NativeCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return NativeCall(name or f"id_{tool}", tool, text)


def says(*calls: NativeCall, text: str = "") -> Reply:
    return Reply(text, calls, None, "tool_calls")


def finish(answer: Any = "x", **others: Any) -> Reply:
    return says(native("__finish__", {"answer": answer, **others}))


ADD = says(native("add", {"a": 1, "b": 2}))

BAD = says(native("__finish__", {"answer": 3}))

GOOD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": "early"}))


def run(
    loop: Finish, model: Any, *functions: Tool | Callable[..., Any], schema: Any = None, observer: Observer = SILENT
) -> Outcome:
    tools = Toolbox(functions) if functions else _own_tools()
    return run_sync(loop.run(Query("Q", schema=schema), tools, model, observer))


@cache
def _own_tools() -> Toolbox:
    """Return the tools of a test that names none: to read their signatures takes as long as a run."""
    return Toolbox((add, risky))


def results(request: Any) -> list[str]:
    """The tool messages that a request shows."""
    return [message.content for message in request.messages if message.role == "tool"]


def steps(**options: Any) -> Finish:
    return Finish(**{"max_steps": 5} | options)
