"""What the tests of the bare loop share: tools, replies, and a way to run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whichloop.loops.bare import Bare
from whichloop.protocol import (
    SILENT,
    Observer,
    Outcome,
    Query,
    Tool,
    Toolbox,
    run_sync,
)

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


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def divide(a: float, b: float) -> float:
    """Divide two numbers."""
    if b == 0:
        raise ValueError("Cannot divide by zero")
    return a / b


def lookup(key: str) -> str:
    """Look a key up."""
    return {"pi": "3.14"}[key]


def call(tool: str, **arguments: Any) -> str:
    return json.dumps({"thought": "t", "tool_name": tool, "arguments": arguments})


def answer(value: Any) -> str:
    return json.dumps({"final_answer": value})


def observations(history: list[dict[str, str]]) -> list[dict[str, str]]:
    return [json.loads(entry["content"]) for entry in history if entry["role"] == "observation"]


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


HEAVY = ("pydantic", "dspy", "langchain", "autogen", "openai")


class Thing:
    def __str__(self) -> str:
        return "a thing"
