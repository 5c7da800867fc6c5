"""Design 4, the bare loop: the document's 24 coverage points, in its order, and what else it says."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.loops.bare.helpers import ADD, BAD, CAP, ERROR_CLASSES, VALVE, Llm, asked, data_of, observations, registry, run
from tests.loops.helpers import Script, add, answer, call
from tests.rows import row
from whichloop.loops import bare, bare_standalone
from whichloop.loops.bare import create_observation
from whichloop.loops.bare_standalone import mock_llm, run_agent

EVERY_ERROR = [reply for reply, _, _ in ERROR_CLASSES]
each_error = pytest.mark.parametrize("reply", EVERY_ERROR)


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
    assert isinstance(bare_standalone.registry, bare_standalone.ToolRegistry)


@each_error
@row("S4-19", "S4-12")
def test_02_value_error_without_crash(reply: str) -> None:
    llm = Llm(reply, answer("mended"))
    result = asked(llm)
    assert json.loads(llm.seen[1][0][-1]["content"])["status"] == "error"
    assert (result["final_answer"], result["steps"]) == ("mended", 1)


@pytest.mark.parametrize(("reply", "text", "tool"), ERROR_CLASSES)
@row("S4-19", "S4-11", "S4-8")
def test_03_non_existent_tool(reply: str, text: str, tool: str | None) -> None:
    result = asked(reply)
    wanted = {"status": "error", "data": text} | ({"tool_name": tool} if tool else {})
    assert (result["seen"], result["final_answer"], result["steps"]) == ([wanted] * 3, VALVE, 3)


@row("S4-19", "S4-9")
def test_04_invalid_arguments() -> None:
    ran: list[int] = []
    assert "does not accept argument 'y'" in data_of(call("spy", y=1), registry(spy=lambda x: ran.append(x)))
    assert ran == []


@pytest.mark.parametrize("max_steps", [1, 2, 11])
@row("S4-19", "S4-4", "S4-16")
def test_05_max_steps_termination(max_steps: int) -> None:
    llm = Llm(ADD)
    result = asked(llm, max_steps)
    assert (llm.steps, result["steps"], result["final_answer"]) == ([*range(max_steps)], max_steps, CAP)


@row("S4-19", "S4-17")
def test_06_while_loop() -> None:
    for calls in (0, 3):
        llm = Llm(*[ADD] * calls, answer("x"))
        assert asked(llm)["steps"] == calls
        assert llm.steps == [*range(calls + 1)]


@row("S4-19")
def test_07_no_forbidden_frameworks() -> None:
    imported = set()
    for node in ast.walk(ast.parse(Path(bare.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            imported |= {name.partition(".")[0] for name in names}
    assert "whichloop" in imported
    assert not imported & {"pydantic", "dspy", "langchain", "autogen", "openai"}


@row("S4-19", "S4-6", "S4-8")
def test_08_add_is_executed() -> None:
    assert asked(call("add", a=40, b=2), 1)["seen"] == [{"status": "success", "data": "42", "tool_name": "add"}]


@row("S4-19", "S4-7")
def test_09_history_structure_is_kept() -> None:
    odd = '{"arguments":{"a":1,   "b":2},\n"tool_name":"add"}'
    llm = Llm(odd, ADD, answer("3"))
    history = asked(llm)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant", "observation", "assistant"]
    assert [history[place]["content"] for place in (0, 1, 3, 5)] == ["q", odd, ADD, answer("3")]
    assert all(entry.keys() == {"role", "content"} for entry in history)
    assert [len(shown) for shown, _ in llm.seen] == [2, 4, 6]


@row("S4-19")
def test_10_json_is_parsed_from_replies() -> None:
    assert data_of(' \n{"tool_name": "add", "arguments": {"a": 1e0, "b": -2}}\n') == "-1.0"


INVALID = "Invalid JSON response from LLM - "
ODD_REPLIES = {
    "```json\n{}\n```": INVALID,
    "": INVALID,
    '{"tool_name": "add", "arguments": {"a": 1,': INVALID,
    '{"a": NaN}': f"{INVALID}NaN is not JSON",
    "[" * 100_000: INVALID,
    **dict.fromkeys(["[]", "[1]", "3", "null", '"text"', "true"], "Reply must be a JSON object"),
    **{f'{{"tool_name": "add", "arguments": {odd}}}': "arguments must be an object" for odd in ("[1]", '"{}"', "7", "false")},
    '{"tool_name": "add", "arguments": null}': "Error: Tool 'add' missing required argument 'a'",
    '{"tool_name": "add"}': "Error: Tool 'add' missing required argument 'a'",
    **dict.fromkeys(['{"arguments": {}}', '{"tool_name": null}', '{"tool_name": ""}'], "No tool_name specified"),
    answer(None): "No tool_name specified",
    '{"final_answer": null, "tool_name": "add", "arguments": {"a": 1, "b": 2}}': "3",
}


@pytest.mark.parametrize("reply", ODD_REPLIES, ids=lambda reply: reply[:40])
@row("S4-19", "X-6", "B4-2", "B4-5", "B4-8")
def test_11_invalid_json_is_an_error_observation(reply: str) -> None:
    assert data_of(reply).startswith(ODD_REPLIES[reply])


@pytest.mark.parametrize(
    ("value", "text"), [("", ""), (0, "0"), (False, "false"), ([], "[]"), ({"é": 1}, '{"é": 1}'), ("3", "3"), (2.5, "2.5")]
)
@row("S4-19", "S4-6", "B4-8")
def test_12_a_final_answer_ends_the_loop_early(value: Any, text: str) -> None:
    llm = Llm(answer(value), ADD)
    assert (asked(llm)["final_answer"], len(llm.seen)) == (text, 1)


@row("S4-19")
def test_13_observations_are_shown_to_the_model() -> None:
    llm = Llm(ADD, answer("x"))
    asked(llm)
    assert json.loads(llm.seen[1][0][-1]["content"])["data"] == "3"


@row("S4-19")
def test_14_tools_run_one_after_the_other() -> None:
    order: list[str] = []
    tools = registry(first=lambda: order.append("first"), second=lambda: order.append("second"))
    asked(Llm(call("second"), call("first"), call("second"), answer("x")), tools=tools)
    assert order == ["second", "first", "second"]


@row("S4-19")
def test_15_an_error_is_corrected_and_tried_again() -> None:
    def corrects_itself(history: list[dict[str, str]], step: int) -> str:
        last = history[-1]["content"]
        if "Cannot divide by zero" in last:
            return call("divide", a=6, b=2)
        return answer(json.loads(last)["data"]) if step > 1 else call("divide", a=6, b=0)

    result = asked(corrects_itself)
    assert (result["final_answer"], result["steps"]) == ("3.0", 2)


@row("S4-19")
def test_16_missing_tool_name() -> None:
    assert asked(Llm('{"arguments": {}}', answer("x")))["seen"] == [{"status": "error", "data": "No tool_name specified"}]


@row("S4-19")
def test_17_custom_tool_name() -> None:
    seen = asked(call("plus", a=1, b=1), 1, registry(plus=add))["seen"]
    assert seen == [{"status": "success", "data": "2", "tool_name": "plus"}]


@row("S4-19")
def test_18_list_of_tools() -> None:
    assert registry().list_tools() == ["add", "divide", "lookup"]
    assert bare_standalone.ToolRegistry().list_tools() == []


@row("S4-19")
def test_19_the_exceptions_type_is_kept() -> None:
    class Weather(Exception):
        """Raised below."""

    def rain() -> None:
        raise Weather("wet")

    assert data_of(call("rain"), registry(rain=rain)) == "Weather: wet"


@row("S4-19", "S4-13")
def test_20_steps_are_right_on_every_path() -> None:
    llm = Llm(ADD, *EVERY_ERROR, answer("x"))
    assert asked(llm, 20, max_consecutive_errors=20)["steps"] == 1 + len(EVERY_ERROR)
    assert llm.steps == [*range(2 + len(EVERY_ERROR))]


@row("S4-19", "S4-9")
def test_21_extra_and_missing_arguments_are_caught() -> None:
    extra = "Error: Tool 'plus' does not accept argument 'c'. Valid parameters: a, b"
    for arguments, told in (
        ({"a": 1, "b": 2}, None),
        ({"a": 1, "b": 2, "c": 3}, extra),
        ({"a": 1}, "Error: Tool 'plus' missing required argument 'b'"),
    ):
        assert bare.validate_tool_arguments(add, arguments, "plus") == told


@row("S4-19", "S4-10")
def test_22_observations_follow_one_schema() -> None:
    for seen in asked(Llm(ADD, *EVERY_ERROR, answer("x")), 20, max_consecutive_errors=None)["seen"]:
        assert seen["status"] in ("success", "error")
        assert seen.keys() in ({"status", "data"}, {"status", "data", "tool_name"})
    assert create_observation("success", "d", "add") == {"status": "success", "data": "d", "tool_name": "add"}
    assert create_observation("error", "d") == {"status": "error", "data": "d"}


@pytest.mark.parametrize("valve", [1, 2, 4])
@row("S4-19", "S4-15", "S4-17", "B4-15")
def test_23_the_valve_stops_a_run_of_errors(valve: int) -> None:
    llm = Llm(BAD)
    result = asked(llm, 50, max_consecutive_errors=valve)
    assert (result["final_answer"], result["steps"]) == (f"Agent terminated: {valve} consecutive errors detected", valve)
    assert len(llm.seen) == valve


@each_error
@row("S4-19", "S4-14")
def test_24_success_resets_the_counter(reply: str) -> None:
    assert asked(Llm(*[reply, reply, ADD] * 2, answer("through")), 7)["final_answer"] == "through"
    assert run(bare.Bare(), Script(ADD, reply, BAD, answer("x"))).details["consecutive_errors"] == 2


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
def test_the_module_runs_a_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module("whichloop.loops.bare", run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
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
