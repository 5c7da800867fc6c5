"""Design 4, the bare loop: the document's 24 coverage points, and what else it says."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.loops.bare.helpers import ADD, BAD, CAP, ERROR_CLASSES, VALVE, Llm, asked, data_of, observations, registry
from tests.loops.helpers import add, answer, call
from tests.rows import row
from whichloop.loops import bare, bare_standalone
from whichloop.loops.bare_standalone import mock_llm, run_agent


class Point(NamedTuple):
    """What a model says, the last of it for ever, and what comes of it; None: whatever it is."""

    replies: list[str]
    final: str | None = None
    steps: int | None = None
    data: list[str] | None = None
    """How the data of each observation begins."""
    max_steps: int = 10
    valve: int | None = 3


class Weather(Exception):
    """A tool's own."""


def rain() -> None:
    raise Weather("wet")


TOOLS = registry(first=lambda: "1st", second=lambda: "2nd", plus=add, rain=rain)
EVERY_ERROR = [reply for reply, _, _ in ERROR_CLASSES]
MISSING_A = "Error: Tool 'add' missing required argument 'a'"
INVALID = "Invalid JSON response from LLM - "
ODD_REPLIES = {
    "```json\n{}\n```": INVALID,
    "": INVALID,
    '{"tool_name": "add", "arguments": {"a": 1,': INVALID,
    '{"a": NaN}': f"{INVALID}NaN is not JSON",
    "[" * 100_000: INVALID,
    **dict.fromkeys(["[1]", "3", "null", '"text"', "true"], "Reply must be a JSON object"),
    **{f'{{"tool_name": "add", "arguments": {odd}}}': "arguments must be an object" for odd in ("[1]", '"{}"', "7", "false")},
    **dict.fromkeys(['{"tool_name": "add", "arguments": null}', '{"tool_name": "add"}'], MISSING_A),
    **dict.fromkeys(['{"arguments": {}}', '{"tool_name": null}', '{"tool_name": ""}', answer(None)], "No tool_name specified"),
    '{"final_answer": null, "tool_name": "add", "arguments": {"a": 1, "b": 2}}': "3",
}
ANSWERS = [("", ""), (0, "0"), (False, "false"), ([], "[]"), ({"é": 1}, '{"é": 1}'), ("3", "3"), (2.5, "2.5")]
ZERO = [call("divide", a=6, b=0), call("divide", a=6, b=2), answer("3.0")]
POINTS: dict[int, list[Point]] = {
    2: [Point([reply, answer("mended")], "mended", 1) for reply in EVERY_ERROR],
    3: [
        Point([reply], VALVE, 3, [text.replace("lookup", "lookup, first, second, plus, rain")] * 3)
        for reply, text, _ in ERROR_CLASSES
    ],
    4: [Point([call("add", a=1, b=2, y=1)], data=["Error: Tool 'add' does not accept argument 'y'"], max_steps=1)],
    5: [Point([ADD], CAP, steps, max_steps=steps) for steps in (1, 2, 11)],
    6: [Point([*[ADD] * calls, answer("x")], "x", calls) for calls in (0, 3)],
    8: [Point([call("add", a=40, b=2)], data=["42"], max_steps=1)],
    10: [Point([' \n{"tool_name": "add", "arguments": {"a": 1e0, "b": -2}}\n'], data=["-1.0"], max_steps=1)],
    11: [Point([reply], data=[text], max_steps=1) for reply, text in ODD_REPLIES.items()],
    12: [Point([answer(value), ADD], text, 0) for value, text in ANSWERS],
    13: [Point([ADD, answer("x")], "x", data=["3"])],
    14: [Point([call("second"), call("first"), call("second"), answer("x")], "x", 3, ["2nd", "1st", "2nd"])],
    15: [Point(ZERO, "3.0", 2, ["ValueError - Cannot divide by zero", "3.0"])],
    16: [Point(['{"arguments": {}}', answer("x")], "x", 1, ["No tool_name specified"])],
    17: [Point([call("plus", a=1, b=1)], data=["2"], max_steps=1)],
    19: [Point([call("rain")], data=["Weather: wet"], max_steps=1)],
    20: [Point([ADD, *EVERY_ERROR, answer("x")], "x", 1 + len(EVERY_ERROR), max_steps=20, valve=20)],
    22: [Point([ADD, *EVERY_ERROR, answer("x")], "x", max_steps=20, valve=None)],
    23: [Point([BAD], f"Agent terminated: {valve} consecutive errors detected", valve, None, 50, valve) for valve in (1, 2, 4)],
    24: [Point([*[reply, reply, ADD] * 2, answer("through")], "through", max_steps=7) for reply in EVERY_ERROR],
}
"""The document's coverage points that a run shows, by number; the others are tests of their own."""


@pytest.mark.parametrize("point", POINTS)
@row("S4-19", "S4-4", "S4-6", "S4-8", "S4-9", "S4-10", "S4-11", "S4-12", "S4-13", "S4-14", "S4-15", "S4-16", "S4-17")
@row("B4-2", "B4-5", "B4-8", "B4-15", "X-6")
def test_a_coverage_point_holds(point: int) -> None:
    for case in POINTS[point]:
        llm = Llm(*case.replies)
        result = asked(llm, case.max_steps, TOOLS, max_consecutive_errors=case.valve)
        assert case.final is None or result["final_answer"] == case.final
        assert case.steps is None or result["steps"] == case.steps
        if case.data is not None:
            assert len(result["seen"]) == len(case.data)
            assert all(seen["data"].startswith(text) for seen, text in zip(result["seen"], case.data, strict=True))
        assert llm.steps == [*range(len(llm.seen))]
        said = [entry["content"] for entry in result["history"]]
        assert all([entry["content"] for entry in shown[1:]] == said[: len(shown) - 1] for shown, _ in llm.seen)
        for seen in result["seen"]:
            assert (seen["status"], seen.keys() - {"tool_name"}) in (("success", {"status", "data"}), ("error", {"status", "data"}))


@row("S4-19", "S4-2", "S4-20")
def test_01_tool_registration_and_execution() -> None:
    tools = registry()

    @tools.register()
    def triple(x: int) -> int:
        return 3 * x

    tools.register()(lambda: "ran")
    assert (triple(2), tools.get_tool("triple"), tools.get_tool("nope")) == (6, triple, None)
    assert tools.list_tools() == ["add", "divide", "lookup", "triple", "<lambda>"]
    assert [tool.description for tool in tools.toolbox()][:2] == ["Add two numbers.", "Divide two numbers."]
    assert data_of(call("<lambda>"), tools) == "ran"
    with pytest.warns(UserWarning, match="'add' is registered again"):
        tools.register("add")(lambda a, b: f"{a}{b}")
    assert (data_of(ADD, tools), tools.list_tools()[0]) == ("12", "add")


@row("S4-19")
def test_07_no_forbidden_frameworks() -> None:
    imported = set()
    for node in ast.walk(ast.parse(Path(bare.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            imported |= {name.partition(".")[0] for name in names}
    assert "whichloop" in imported
    assert not imported & {"pydantic", "dspy", "langchain", "autogen", "openai"}


@row("S4-19", "S4-7", "S4-8")
def test_09_history_structure_is_kept() -> None:
    odd = '{"arguments":{"a":1,   "b":2},\n"tool_name":"add"}'
    llm = Llm(odd, ADD, answer("3"))
    history = asked(llm)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant", "observation", "assistant"]
    assert [history[place]["content"] for place in (0, 1, 3, 5)] == ["q", odd, ADD, answer("3")]
    assert json.loads(history[2]["content"]) == {"status": "success", "data": "3", "tool_name": "add"}
    assert all(entry.keys() == {"role", "content"} for entry in history)
    assert [len(shown) for shown, _ in llm.seen] == [2, 4, 6]


@row("S4-19")
def test_18_list_of_tools() -> None:
    assert registry().list_tools() == ["add", "divide", "lookup"]
    assert bare_standalone.ToolRegistry().list_tools() == []


@row("S4-19", "S4-9")
def test_21_extra_and_missing_arguments_are_caught() -> None:
    extra = "Error: Tool 'plus' does not accept argument 'c'. Valid parameters: a, b"
    for arguments, told in (
        ({"a": 1, "b": 2}, None),
        ({"a": 1, "b": 2, "c": 3}, extra),
        ({"a": 1}, "Error: Tool 'plus' missing required argument 'b'"),
    ):
        assert bare.validate_tool_arguments(add, arguments, "plus") == told


# --- what else the document says ---


@row("S4-3", "S4-21")
def test_run_agent_has_the_seeds_arguments_defaults_and_result() -> None:
    parameters = inspect.signature(run_agent).parameters
    assert list(parameters)[:4] == ["query", "max_steps", "llm_func", "max_consecutive_errors"]
    assert [parameters[name].default for name in list(parameters)[1:4]] == [10, mock_llm, 3]
    assert parameters["registry"].default is bare_standalone.registry
    result = run_agent("What is 1 + 2?", 10, Llm(ADD, answer("3")), 3, registry=registry())
    assert list(result) == ["final_answer", "steps", "history"]
    assert (result["final_answer"], result["steps"], len(result["history"])) == ("3", 1, 4)
    theirs = run_agent("q", 1, Llm(ADD), registry=bare_standalone.ToolRegistry())
    assert observations(theirs["history"])[0]["data"] == "Tool 'add' not found. Available tools: "
    assert run_agent("q", 1, Llm(ADD))["final_answer"] == CAP


@row("S4-18")
def test_the_module_runs_a_demo() -> None:
    done = subprocess.run([sys.executable, "-m", "whichloop.loops.bare"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "What is 5 + 3? -> 8 (1 steps)",
        "What is 1 / 0? -> ValueError - Cannot divide by zero (1 steps)",
    ]


@row("S4-5", "S4-23")
def test_mock_llm_is_deterministic_and_running_with_it_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    reply = mock_llm([{"role": "user", "content": "What is 5 + 3?"}], 0)
    assert json.loads(reply) == {"thought": "add the two numbers", "tool_name": "add", "arguments": {"a": 5, "b": 3}}
    tools = registry()
    with caplog.at_level(logging.WARNING, "whichloop.loops.bare_standalone"):
        first = run_agent("What is 1 / 4?", registry=tools)
    assert first["final_answer"] == "0.25"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "mock_llm" in caplog.text
    assert run_agent("What is 1 / 4?", registry=tools) == first
    assert run_agent("Sing a song", registry=tools)["final_answer"] == "mock_llm can only add and divide two numbers."
