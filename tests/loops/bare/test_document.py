"""Design 4, the bare loop: what its document says, a test for every row, named after it."""

from __future__ import annotations

import inspect
import json
import logging

import pytest

from tests.loops.bare.helpers import (
    ADD,
    BAD,
    CAP,
    ERROR_CLASSES,
    HEAVY,
    VALVE,
    Llm,
    add,
    answer,
    call,
    observations,
    run,
)
from tests.loops.helpers import Script, python
from tests.rows import row
from whichloop.loops import bare_standalone
from whichloop.loops.bare import Bare, create_observation, validate_tool_arguments
from whichloop.loops.bare_standalone import ToolRegistry, mock_llm, run_agent


@row("S4-2")
def test_register_is_a_decorator_and_a_global_registry_is_there(tools: ToolRegistry) -> None:
    @tools.register()
    def triple(x: int) -> int:
        return 3 * x

    assert triple(2) == 6
    assert tools.get_tool("triple") is triple
    assert tools.list_tools() == ["add", "divide", "lookup", "triple"]
    assert isinstance(bare_standalone.registry, ToolRegistry)


@row("S4-3")
def test_run_agent_has_the_seeds_arguments_defaults_and_result(tools: ToolRegistry) -> None:
    parameters = inspect.signature(run_agent).parameters
    assert list(parameters)[:4] == ["query", "max_steps", "llm_func", "max_consecutive_errors"]
    assert [parameters[name].default for name in list(parameters)[1:4]] == [10, mock_llm, 3]
    result = run_agent("What is 1 + 2?", 10, Llm(ADD, answer("3")), 3, registry=tools)
    assert list(result) == ["final_answer", "steps", "history"]
    assert (result["final_answer"], result["steps"], len(result["history"])) == ("3", 1, 4)


@pytest.mark.parametrize("max_steps", [1, 2, 5, 11])
@row("S4-4")
def test_the_loop_runs_while_step_is_below_max_steps(tools: ToolRegistry, max_steps: int) -> None:
    llm = Llm(ADD)
    result = run_agent("q", max_steps, llm, registry=tools)
    assert llm.steps == list(range(max_steps))
    assert result["steps"] == max_steps


@row("S4-5")
def test_mock_llm_takes_history_and_step_and_gives_json_text() -> None:
    reply = mock_llm([{"role": "user", "content": "What is 5 + 3?"}], 0)
    assert json.loads(reply) == {"thought": "add the two numbers", "tool_name": "add", "arguments": {"a": 5, "b": 3}}


@row("S4-6")
def test_a_reply_is_a_call_or_a_final_answer(tools: ToolRegistry) -> None:
    result = run_agent(
        "q", llm_func=Llm('{"thought": "x", "tool_name": "add", "arguments": {"a": 1, "b": 2}}', answer("3")), registry=tools
    )
    assert observations(result["history"])[0] == {"status": "success", "data": "3", "tool_name": "add"}
    assert result["final_answer"] == "3"


@row("S4-7")
def test_history_is_query_then_raw_reply_then_observation(tools: ToolRegistry) -> None:
    odd = '{"arguments":{"a":1,   "b":2},\n"tool_name":"add"}'
    end = answer("3")
    history = run_agent("The query", llm_func=Llm(odd, end), registry=tools)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant"]
    assert [history[0]["content"], history[1]["content"], history[3]["content"]] == ["The query", odd, end]


@row("S4-8")
def test_an_observation_has_status_data_as_text_and_perhaps_the_tools_name(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 3, Llm(ADD, BAD, answer("x")), registry=tools)["history"])
    assert seen[0] == {"status": "success", "data": "3", "tool_name": "add"}
    assert seen[1].keys() == {"status", "data"}
    assert seen[1]["status"] == "error"


@row("S4-9")
def test_validator_checks_names_before_the_call(tools: ToolRegistry) -> None:
    assert validate_tool_arguments(add, {"a": 1, "b": 2}, "add") is None
    assert (
        validate_tool_arguments(add, {"a": 1, "b": 2, "c": 3}, "add")
        == "Error: Tool 'add' does not accept argument 'c'. Valid parameters: a, b"
    )
    assert validate_tool_arguments(add, {"a": 1}, "plus") == "Error: Tool 'plus' missing required argument 'b'"
    ran: list[int] = []
    tools.register("spy")(lambda x: ran.append(x))
    run_agent("q", 2, Llm(call("spy", y=1)), registry=tools)
    assert ran == []


@row("S4-10")
def test_create_observation_leaves_out_a_name_that_is_not_given() -> None:
    assert create_observation("success", "d", "add") == {"status": "success", "data": "d", "tool_name": "add"}
    assert create_observation("error", "d") == {"status": "error", "data": "d"}


@pytest.mark.parametrize(("reply", "text", "tool"), ERROR_CLASSES)
@row("S4-11")
def test_six_error_classes_have_the_seeds_words(tools: ToolRegistry, reply: str, text: str, tool: str | None) -> None:
    result = run_agent("q", llm_func=Llm(reply), registry=tools)
    seen = observations(result["history"])
    assert {entry["data"] for entry in seen} == {text}
    assert {entry.get("tool_name") for entry in seen} == {tool}
    assert result["final_answer"] == VALVE


@pytest.mark.parametrize("reply", [reply for reply, _, _ in ERROR_CLASSES])
@row("S4-12")
def test_errors_of_model_and_tools_are_fed_back_and_the_sixth_class_ends_the_run(tools: ToolRegistry, reply: str) -> None:
    llm = Llm(reply, answer("mended"))
    result = run_agent("q", llm_func=llm, registry=tools)
    assert json.loads(llm.seen[1][0][-1]["content"])["status"] == "error"
    assert (result["final_answer"], result["steps"]) == ("mended", 1)
    assert run_agent("q", llm_func=Llm(reply), registry=tools)["steps"] == 3


@pytest.mark.parametrize("reply", [ADD, *(reply for reply, _, _ in ERROR_CLASSES)])
@row("S4-13")
def test_every_path_that_goes_on_adds_one_step_and_the_ends_add_none(tools: ToolRegistry, reply: str) -> None:
    llm = Llm(reply, reply, answer("x"))
    assert run_agent("q", llm_func=llm, registry=tools)["steps"] == 2
    assert llm.steps == [0, 1, 2]
    assert run_agent("q", llm_func=Llm(BAD), max_consecutive_errors=2, registry=tools)["steps"] == 2


@pytest.mark.parametrize("error", [reply for reply, _, _ in ERROR_CLASSES])
@row("S4-14")
def test_the_counter_rises_with_each_error_class_and_falls_to_zero_on_success(tools: ToolRegistry, error: str) -> None:
    spared = run_agent("q", 20, Llm(error, error, ADD, error, error, answer("x")), registry=tools)
    assert spared["final_answer"] == "x"
    outcome = run(Bare(), Script(ADD, error, BAD, answer("x")))
    assert outcome.details["consecutive_errors"] == 2


@row("S4-15")
def test_the_valve_is_checked_before_the_model_is_asked(tools: ToolRegistry) -> None:
    llm = Llm(BAD)
    assert run_agent("q", llm_func=llm, registry=tools)["final_answer"] == VALVE
    assert len(llm.seen) == 3


@row("S4-16")
def test_the_text_at_the_limit(tools: ToolRegistry) -> None:
    assert run_agent("q", 2, Llm(ADD), registry=tools)["final_answer"] == CAP


@row("S4-17")
def test_steps_of_an_immediate_answer_and_of_a_valve_run(tools: ToolRegistry) -> None:
    llm = Llm(answer("now"))
    assert run_agent("q", llm_func=llm, registry=tools)["steps"] == 0
    assert llm.steps == [0]
    assert run_agent("q", llm_func=Llm(BAD), registry=tools)["steps"] == 3


OFFLINE = """\
import os, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
"""


@row("S4-18")
def test_the_module_runs_a_demo_offline() -> None:
    done = python(f"{OFFLINE}import runpy; runpy.run_module('whichloop.loops.bare', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "What is 5 + 3? -> 8 (1 steps)",
        "What is 1 / 0? -> ValueError - Cannot divide by zero (1 steps)",
    ]


@row("S4-20")
def test_docstring_names_order_unknown_and_registering_again(tools: ToolRegistry) -> None:
    assert [tool.description for tool in tools.toolbox()] == ["Add two numbers.", "Divide two numbers.", "Look a key up."]
    tools.register("minus")(lambda a, b: a - b)
    assert tools.list_tools() == ["add", "divide", "lookup", "minus"]
    assert tools.get_tool("nope") is None
    with pytest.warns(UserWarning, match="'add' is registered again"):
        tools.register("add")(lambda a, b: f"{a}{b}")
    result = run_agent("q", llm_func=Llm(ADD, answer("x")), registry=tools)
    assert observations(result["history"])[0]["data"] == "12"
    assert tools.list_tools()[0] == "add"


@row("S4-21")
def test_a_run_can_have_its_own_registry_and_the_global_one_is_the_default(tools: ToolRegistry) -> None:
    assert inspect.signature(run_agent).parameters["registry"].default is bare_standalone.registry
    theirs = run_agent("q", llm_func=Llm(ADD, answer("x")), registry=tools)
    ours = run_agent("q", 1, Llm(ADD), registry=ToolRegistry())
    assert observations(theirs["history"])[0]["data"] == "3"
    assert observations(ours["history"])[0]["data"] == "Tool 'add' not found. Available tools: "
    assert run_agent("q", 1, Llm(ADD))["final_answer"] == CAP


@row("S4-22")
def test_importing_and_running_it_loads_no_framework() -> None:
    done = python(
        "import sys\n"
        "from whichloop.loops.bare_standalone import ToolRegistry, run_agent\n"
        "tools = ToolRegistry()\n"
        "tools.register('add')(lambda a, b: a + b)\n"
        "assert run_agent('What is 5 + 3?', registry=tools)['final_answer'] == '8'\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


@row("S4-23")
def test_mock_llm_is_deterministic_and_running_with_it_warns_once(tools: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "whichloop.loops.bare_standalone"):
        first = run_agent("What is 1 / 4?", registry=tools)
    assert first["final_answer"] == "0.25"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "mock_llm" in caplog.text
    assert run_agent("What is 1 / 4?", registry=tools) == first
    assert run_agent("Sing a song", registry=tools)["final_answer"] == "mock_llm can only add and divide two numbers."
