"""What the tests of the bare loop share: tools, replies, and ways to run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.loops.helpers import add, call
from whichloop.loops import Bare, ToolRegistry, run_agent
from whichloop.protocol import SILENT, Observer, Outcome, Query, Tool, Toolbox, run_sync

CAP = "Maximum steps reached without final answer"
VALVE = "Agent terminated: 3 consecutive errors detected"


class Llm:
    """An `llm_func` that gives the listed replies, then the last one for ever; keeps what it was shown."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[list[dict[str, str]], int]] = []

    def __call__(self, history: list[dict[str, str]], step: int) -> str:
        self.seen.append((history, step))
        return self.replies[min(len(self.seen), len(self.replies)) - 1]

    @property
    def steps(self) -> list[int]:
        return [step for _, step in self.seen]


def divide(a: float, b: float) -> float:
    """Divide two numbers."""
    if b == 0:
        raise ValueError("Cannot divide by zero")
    return a / b


def lookup(key: str) -> str:
    """Look a key up."""
    return {"pi": "3.14"}[key]


def registry(**more: Callable[..., Any]) -> ToolRegistry:
    """The three tools, and others by name."""
    made = ToolRegistry()
    for function in (add, divide, lookup):
        made.register()(function)
    for name, function in more.items():
        made.register(name)(function)
    return made


def observations(history: list[dict[str, str]]) -> list[dict[str, str]]:
    return [json.loads(entry["content"]) for entry in history if entry["role"] == "observation"]


def asked(llm: Callable[..., Any] | str, max_steps: int = 10, tools: ToolRegistry | None = None, **how: Any) -> dict[str, Any]:
    """What `run_agent` returns, with the observations as `seen`; a text is what the model says for ever."""
    result = run_agent("q", max_steps, Llm(llm) if isinstance(llm, str) else llm, registry=tools or registry(), **how)
    return {**result, "seen": observations(result["history"])}


def data_of(reply: str, tools: ToolRegistry | None = None) -> str:
    """The first observation's data of a run in which the model says one thing."""
    return str(asked(reply, 1, tools)["seen"][0]["data"])


def run(loop: Bare, model: Any, *functions: Tool | Callable[..., Any], observer: Observer = SILENT) -> Outcome:
    return run_sync(loop.run(Query("Q"), Toolbox(functions or (add, divide, lookup)), model, observer))


def observed(outcome: Outcome) -> list[dict[str, str]]:
    return observations(outcome.details["history"])


ADD = call("add", a=1, b=2)
BAD = "not json"
ERROR_CLASSES = [
    (call("pow", a=1), "Tool 'pow' not found. Available tools: add, divide, lookup", "pow"),
    (call("add", a=1), "Error: Tool 'add' missing required argument 'b'", "add"),
    (call("divide", a=1, b=0), "ValueError - Cannot divide by zero", "divide"),
    (call("lookup", key="e"), "KeyError: 'e'", "lookup"),
    ("{oops", "Invalid JSON response from LLM - Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", None),
    ('{"thought": "hm"}', "No tool_name specified", None),
]
