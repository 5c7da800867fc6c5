"""Design 4, the bare loop: a test for every row, named after it."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import ast
import asyncio
import dataclasses
import datetime
import inspect
import json
import logging
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from loopbench.loops import bare
from loopbench.loops.bare import (
    INSTRUCTIONS,
    Bare,
    ToolRegistry,
    arun_agent,
    create_observation,
    mock_llm,
    run_agent,
    validate_tool_arguments,
)
from loopbench.protocol import (
    SILENT,
    BudgetExceeded,
    ContextOverflow,
    Message,
    NativeCall,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from loopbench.protocol.names import parse_spec
from loopbench.runs.registry import make_loop

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


@pytest.fixture
def tools() -> ToolRegistry:
    made = ToolRegistry()
    for function in (add, divide, lookup):
        made.register()(function)
    return made


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


# --- the law: any reply, any tool ---

CONFIGS = st.builds(
    Bare,
    max_steps=st.integers(1, 6),
    max_consecutive_errors=st.none() | st.integers(1, 6),
    instructions=st.sampled_from([INSTRUCTIONS, None]),
    keep_bad_replies=st.booleans(),
    validate_arguments=st.booleans(),
    check_types=st.booleans(),
    list_tools_in_error=st.booleans(),
    error_type_in_text=st.booleans(),
    on_provider_error=st.sampled_from(["stop", "observe"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
REPLIES = st.one_of(
    st.text(max_size=30),
    JSON.map(json.dumps),
    st.fixed_dictionaries(
        {},
        optional={
            "thought": JSON,
            "tool_name": st.sampled_from(["add", "any", "nope", "", None, 3, []]),
            "arguments": JSON | st.fixed_dictionaries({"value": JSON}) | st.fixed_dictionaries({"a": JSON, "b": JSON}),
            "final_answer": JSON,
        },
    ).map(json.dumps),
    st.sampled_from([ProviderError("down"), ContextOverflow("too long")]),
)


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(
    JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), Query("x"), SystemExit(3), KeyError("k"), ValueError("v")])
)


def tools_that_give(result: Any) -> tuple[Tool, ...]:
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    return tuple(Tool.from_function(f, name=n, blocking=False) for f, n in ((add, "add"), (anything, "any")))


@given(loop=CONFIGS, replies=st.lists(REPLIES, max_size=7), result=RESULTS)
@settings(deadline=None, max_examples=80)
def test_X_21_G_9_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Bare, replies: list[Any], result: Any, kit: Any
) -> None:
    model = kit.Script(*replies, then=BAD)
    outcome = run(loop, model, *tools_that_give(result))
    seen = observed(outcome)
    assert outcome.stop in loop.stops
    assert isinstance(outcome.answer, str) == (outcome.stop not in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW))
    assert outcome.steps == len(seen) <= loop.max_steps
    assert len(model.requests) <= loop.max_steps
    errors = [entry["status"] == "error" for entry in seen]
    assert outcome.details["consecutive_errors"] == next((i for i, bad in enumerate(reversed(errors)) if not bad), len(errors))
    if loop.max_consecutive_errors is not None:
        runs = "".join("x" if bad else " " for bad in errors).split()
        assert max(map(len, runs), default=0) <= loop.max_consecutive_errors
    assert all(entry.keys() <= {"status", "data", "tool_name"} and isinstance(entry["data"], str) for entry in seen)
    assert json.loads(json.dumps(outcome.details["history"])) == outcome.details["history"]


# --- S4: what the document says ---


def test_S4_2_register_is_a_decorator_and_a_global_registry_is_there(tools: ToolRegistry) -> None:
    @tools.register()
    def triple(x: int) -> int:
        return 3 * x

    assert triple(2) == 6
    assert tools.get_tool("triple") is triple
    assert tools.list_tools() == ["add", "divide", "lookup", "triple"]
    assert isinstance(bare.registry, ToolRegistry)


def test_S4_3_run_agent_has_the_seeds_arguments_defaults_and_result(tools: ToolRegistry) -> None:
    parameters = inspect.signature(run_agent).parameters
    assert list(parameters)[:4] == ["query", "max_steps", "llm_func", "max_consecutive_errors"]
    assert [parameters[name].default for name in list(parameters)[1:4]] == [10, mock_llm, 3]
    result = run_agent("What is 1 + 2?", 10, Llm(ADD, answer("3")), 3, registry=tools)
    assert list(result) == ["final_answer", "steps", "history"]
    assert (result["final_answer"], result["steps"], len(result["history"])) == ("3", 1, 4)


@pytest.mark.parametrize("max_steps", [1, 2, 5, 11])
def test_S4_4_the_loop_runs_while_step_is_below_max_steps(tools: ToolRegistry, max_steps: int) -> None:
    llm = Llm(ADD)
    result = run_agent("q", max_steps, llm, registry=tools)
    assert llm.steps == list(range(max_steps))
    assert result["steps"] == max_steps


def test_S4_5_mock_llm_takes_history_and_step_and_gives_json_text() -> None:
    reply = mock_llm([{"role": "user", "content": "What is 5 + 3?"}], 0)
    assert json.loads(reply) == {"thought": "add the two numbers", "tool_name": "add", "arguments": {"a": 5, "b": 3}}


def test_S4_6_a_reply_is_a_call_or_a_final_answer(tools: ToolRegistry) -> None:
    result = run_agent(
        "q", llm_func=Llm('{"thought": "x", "tool_name": "add", "arguments": {"a": 1, "b": 2}}', answer("3")), registry=tools
    )
    assert observations(result["history"])[0] == {"status": "success", "data": "3", "tool_name": "add"}
    assert result["final_answer"] == "3"


def test_S4_7_history_is_query_then_raw_reply_then_observation(tools: ToolRegistry) -> None:
    odd = '{"arguments":{"a":1,   "b":2},\n"tool_name":"add"}'
    end = answer("3")
    history = run_agent("The query", llm_func=Llm(odd, end), registry=tools)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant"]
    assert [history[0]["content"], history[1]["content"], history[3]["content"]] == ["The query", odd, end]


def test_S4_8_an_observation_has_status_data_as_text_and_perhaps_the_tools_name(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 3, Llm(ADD, BAD, answer("x")), registry=tools)["history"])
    assert seen[0] == {"status": "success", "data": "3", "tool_name": "add"}
    assert seen[1].keys() == {"status", "data"}
    assert seen[1]["status"] == "error"


def test_S4_9_validator_checks_names_before_the_call(tools: ToolRegistry) -> None:
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


def test_S4_10_create_observation_leaves_out_a_name_that_is_not_given() -> None:
    assert create_observation("success", "d", "add") == {"status": "success", "data": "d", "tool_name": "add"}
    assert create_observation("error", "d") == {"status": "error", "data": "d"}


ERROR_CLASSES = [
    (call("pow", a=1), "Tool 'pow' not found. Available tools: add, divide, lookup", "pow"),
    (call("add", a=1), "Error: Tool 'add' missing required argument 'b'", "add"),
    (call("divide", a=1, b=0), "ValueError - Cannot divide by zero", "divide"),
    (call("lookup", key="e"), "KeyError: 'e'", "lookup"),
    ("{oops", "Invalid JSON response from LLM - Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", None),
    ('{"thought": "hm"}', "No tool_name specified", None),
]


@pytest.mark.parametrize(("reply", "text", "tool"), ERROR_CLASSES)
def test_S4_11_six_error_classes_have_the_seeds_words(tools: ToolRegistry, reply: str, text: str, tool: str | None) -> None:
    result = run_agent("q", llm_func=Llm(reply), registry=tools)
    seen = observations(result["history"])
    assert {entry["data"] for entry in seen} == {text}
    assert {entry.get("tool_name") for entry in seen} == {tool}
    assert result["final_answer"] == VALVE


@pytest.mark.parametrize("reply", [reply for reply, _, _ in ERROR_CLASSES])
def test_S4_12_errors_of_model_and_tools_are_fed_back_and_the_sixth_class_ends_the_run(tools: ToolRegistry, reply: str) -> None:
    llm = Llm(reply, answer("mended"))
    result = run_agent("q", llm_func=llm, registry=tools)
    assert json.loads(llm.seen[1][0][-1]["content"])["status"] == "error"
    assert (result["final_answer"], result["steps"]) == ("mended", 1)
    assert run_agent("q", llm_func=Llm(reply), registry=tools)["steps"] == 3


@pytest.mark.parametrize("reply", [ADD, *(reply for reply, _, _ in ERROR_CLASSES)])
def test_S4_13_every_path_that_goes_on_adds_one_step_and_the_ends_add_none(tools: ToolRegistry, reply: str) -> None:
    llm = Llm(reply, reply, answer("x"))
    assert run_agent("q", llm_func=llm, registry=tools)["steps"] == 2
    assert llm.steps == [0, 1, 2]
    assert run_agent("q", llm_func=Llm(BAD), max_consecutive_errors=2, registry=tools)["steps"] == 2


@pytest.mark.parametrize("error", [reply for reply, _, _ in ERROR_CLASSES])
def test_S4_14_the_counter_rises_with_each_error_class_and_falls_to_zero_on_success(
    tools: ToolRegistry, error: str, kit: Any
) -> None:
    spared = run_agent("q", 20, Llm(error, error, ADD, error, error, answer("x")), registry=tools)
    assert spared["final_answer"] == "x"
    outcome = run(Bare(), kit.Script(ADD, error, BAD, answer("x")))
    assert outcome.details["consecutive_errors"] == 2


def test_S4_15_the_valve_is_checked_before_the_model_is_asked(tools: ToolRegistry) -> None:
    llm = Llm(BAD)
    assert run_agent("q", llm_func=llm, registry=tools)["final_answer"] == VALVE
    assert len(llm.seen) == 3


def test_S4_16_the_text_at_the_limit(tools: ToolRegistry) -> None:
    assert run_agent("q", 2, Llm(ADD), registry=tools)["final_answer"] == CAP


def test_S4_17_steps_of_an_immediate_answer_and_of_a_valve_run(tools: ToolRegistry) -> None:
    llm = Llm(answer("now"))
    assert run_agent("q", llm_func=llm, registry=tools)["steps"] == 0
    assert llm.steps == [0]
    assert run_agent("q", llm_func=Llm(BAD), registry=tools)["steps"] == 3


OFFLINE = """\
import os, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
"""


def test_S4_18_the_module_runs_a_demo_offline(kit: Any) -> None:
    done = kit.python(f"{OFFLINE}import runpy; runpy.run_module('loopbench.loops.bare', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "What is 5 + 3? -> 8 (1 steps)",
        "What is 1 / 0? -> ValueError - Cannot divide by zero (1 steps)",
    ]


def test_S4_20_docstring_names_order_unknown_and_registering_again(tools: ToolRegistry) -> None:
    assert [tool.description for tool in tools.toolbox()] == ["Add two numbers.", "Divide two numbers.", "Look a key up."]
    tools.register("minus")(lambda a, b: a - b)
    assert tools.list_tools() == ["add", "divide", "lookup", "minus"]
    assert tools.get_tool("nope") is None
    with pytest.warns(UserWarning, match="'add' is registered again"):
        tools.register("add")(lambda a, b: f"{a}{b}")
    result = run_agent("q", llm_func=Llm(ADD, answer("x")), registry=tools)
    assert observations(result["history"])[0]["data"] == "12"
    assert tools.list_tools()[0] == "add"


def test_S4_21_a_run_can_have_its_own_registry_and_the_global_one_is_the_default(tools: ToolRegistry) -> None:
    assert inspect.signature(run_agent).parameters["registry"].default is bare.registry
    theirs = run_agent("q", llm_func=Llm(ADD, answer("x")), registry=tools)
    ours = run_agent("q", 1, Llm(ADD), registry=ToolRegistry())
    assert observations(theirs["history"])[0]["data"] == "3"
    assert observations(ours["history"])[0]["data"] == "Tool 'add' not found. Available tools: "
    assert run_agent("q", 1, Llm(ADD))["final_answer"] == CAP


HEAVY = ("pydantic", "dspy", "langchain", "autogen", "openai")


def test_S4_22_importing_and_running_it_loads_no_framework(kit: Any) -> None:
    done = kit.python(
        "import sys\n"
        "from loopbench.loops.bare import ToolRegistry, run_agent\n"
        "tools = ToolRegistry()\n"
        "tools.register('add')(lambda a, b: a + b)\n"
        "assert run_agent('What is 5 + 3?', registry=tools)['final_answer'] == '8'\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_S4_23_mock_llm_is_deterministic_and_running_with_it_warns_once(
    tools: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "loopbench.loops.bare"):
        first = run_agent("What is 1 / 4?", registry=tools)
    assert first["final_answer"] == "0.25"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "mock_llm" in caplog.text
    assert run_agent("What is 1 / 4?", registry=tools) == first
    assert run_agent("Sing a song", registry=tools)["final_answer"] == "mock_llm can only add and divide two numbers."


# --- S4-19: the document's 24 coverage points, in its order ---


def test_S4_19_01_tool_registration_and_execution(tools: ToolRegistry) -> None:
    tools.register()(lambda: "ran")
    assert observations(run_agent("q", 1, Llm(call("<lambda>")), registry=tools)["history"])[0]["data"] == "ran"


def test_S4_19_02_value_error_without_crash(tools: ToolRegistry) -> None:
    result = run_agent("q", llm_func=Llm(call("divide", a=1, b=0), answer("no")), registry=tools)
    assert observations(result["history"])[0]["data"] == "ValueError - Cannot divide by zero"
    assert result["final_answer"] == "no"


def test_S4_19_03_non_existent_tool(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("fly")), registry=tools)["history"])
    assert seen[0]["data"].startswith("Tool 'fly' not found")


def test_S4_19_04_invalid_arguments(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("add", x=1)), registry=tools)["history"])
    assert "does not accept argument 'x'" in seen[0]["data"]


def test_S4_19_05_max_steps_termination(tools: ToolRegistry) -> None:
    result = run_agent("q", 4, Llm(ADD), registry=tools)
    assert (result["steps"], result["final_answer"]) == (4, CAP)


def test_S4_19_06_while_loop(tools: ToolRegistry) -> None:
    llm = Llm(ADD, ADD, ADD, answer("x"))
    run_agent("q", 10, llm, registry=tools)
    assert llm.steps == [0, 1, 2, 3]


def test_S4_19_07_no_forbidden_frameworks() -> None:
    imported = set()
    for node in ast.walk(ast.parse(Path(bare.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert not imported & set(HEAVY)
    assert "loopbench" in imported


def test_S4_19_08_add_is_executed(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("add", a=40, b=2)), registry=tools)["history"])
    assert seen == [{"status": "success", "data": "42", "tool_name": "add"}]


def test_S4_19_09_history_structure_is_kept(tools: ToolRegistry) -> None:
    llm = Llm(ADD, call("add", a=3, b=3), answer("x"))
    history = run_agent("q", llm_func=llm, registry=tools)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant", "observation", "assistant"]
    assert all(entry.keys() == {"role", "content"} for entry in history)
    assert [len(shown) for shown, _ in llm.seen] == [2, 4, 6]


def test_S4_19_10_json_is_parsed_from_replies(tools: ToolRegistry) -> None:
    seen = observations(
        run_agent("q", 1, Llm(' \n{"tool_name": "add", "arguments": {"a": 1e0, "b": -2}}\n'), registry=tools)["history"]
    )
    assert seen[0]["data"] == "-1.0"


def test_S4_19_11_invalid_json_is_an_error_observation(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm("```json\n{}\n```"), registry=tools)["history"])
    assert seen[0]["data"].startswith("Invalid JSON response from LLM - ")


def test_S4_19_12_a_final_answer_ends_the_loop_early(tools: ToolRegistry) -> None:
    llm = Llm(answer("done"), ADD)
    assert run_agent("q", 10, llm, registry=tools)["final_answer"] == "done"
    assert len(llm.seen) == 1


def test_S4_19_13_observations_are_shown_to_the_model(tools: ToolRegistry) -> None:
    llm = Llm(ADD, answer("x"))
    run_agent("q", llm_func=llm, registry=tools)
    assert json.loads(llm.seen[1][0][-1]["content"])["data"] == "3"


def test_S4_19_14_tools_run_one_after_the_other(tools: ToolRegistry) -> None:
    order: list[str] = []
    tools.register("first")(lambda: order.append("first"))
    tools.register("second")(lambda: order.append("second"))
    run_agent("q", llm_func=Llm(call("second"), call("first"), call("second"), answer("x")), registry=tools)
    assert order == ["second", "first", "second"]


def test_S4_19_15_an_error_is_corrected_and_tried_again(tools: ToolRegistry) -> None:
    def corrects_itself(history: list[dict[str, str]], step: int) -> str:
        last = history[-1]["content"]
        if "Cannot divide by zero" in last:
            return call("divide", a=6, b=2)
        return answer(json.loads(last)["data"]) if step > 1 else call("divide", a=6, b=0)

    result = run_agent("q", llm_func=corrects_itself, registry=tools)
    assert (result["final_answer"], result["steps"]) == ("3.0", 2)


def test_S4_19_16_missing_tool_name(tools: ToolRegistry) -> None:
    for reply in ('{"arguments": {}}', '{"tool_name": null}', '{"tool_name": ""}'):
        assert observations(run_agent("q", 1, Llm(reply), registry=tools)["history"])[0]["data"] == "No tool_name specified"


def test_S4_19_17_custom_tool_name(tools: ToolRegistry) -> None:
    tools.register("plus")(add)
    seen = observations(run_agent("q", 1, Llm(call("plus", a=1, b=1)), registry=tools)["history"])
    assert seen[0] == {"status": "success", "data": "2", "tool_name": "plus"}


def test_S4_19_18_list_of_tools(tools: ToolRegistry) -> None:
    assert tools.list_tools() == ["add", "divide", "lookup"]
    assert ToolRegistry().list_tools() == []


def test_S4_19_19_the_exceptions_type_is_kept(tools: ToolRegistry) -> None:
    class Weather(Exception):
        """Raised below."""

    def rain() -> None:
        raise Weather("wet")

    tools.register()(rain)
    assert observations(run_agent("q", 1, Llm(call("rain")), registry=tools)["history"])[0]["data"] == "Weather: wet"


def test_S4_19_20_steps_are_right_on_every_path(tools: ToolRegistry) -> None:
    mixed = [ADD, *(reply for reply, _, _ in ERROR_CLASSES)]
    llm = Llm(*mixed, answer("x"))
    assert run_agent("q", 20, llm, max_consecutive_errors=20, registry=tools)["steps"] == len(mixed)
    assert llm.steps == list(range(len(mixed) + 1))


def test_S4_19_21_extra_and_missing_arguments_are_caught() -> None:
    assert "does not accept argument 'z'" in str(validate_tool_arguments(add, {"z": 0}, "add"))
    assert "missing required argument 'b'" in str(validate_tool_arguments(add, {"a": 0}, "add"))


def test_S4_19_22_observations_follow_one_schema(tools: ToolRegistry) -> None:
    replies = [ADD, *(reply for reply, _, _ in ERROR_CLASSES)]
    result = run_agent("q", 20, Llm(*replies, answer("x")), max_consecutive_errors=None, registry=tools)
    for seen in observations(result["history"]):
        assert seen["status"] in ("success", "error")
        assert seen.keys() in ({"status", "data"}, {"status", "data", "tool_name"})


def test_S4_19_23_the_valve_stops_a_run_of_errors(tools: ToolRegistry) -> None:
    result = run_agent("q", 50, Llm(BAD), max_consecutive_errors=4, registry=tools)
    assert (result["final_answer"], result["steps"]) == ("Agent terminated: 4 consecutive errors detected", 4)


def test_S4_19_24_success_resets_the_counter(tools: ToolRegistry) -> None:
    result = run_agent("q", 7, Llm(*[BAD, BAD, ADD] * 2, answer("through")), registry=tools)
    assert result["final_answer"] == "through"


# --- B4: faults of the document, and the semantics built ---


@pytest.mark.parametrize("reply", ["[]", "3", "null", '"text"', "true"])
def test_B4_2_json_that_is_no_object_is_a_counted_error(tools: ToolRegistry, reply: str) -> None:
    result = run_agent("q", llm_func=Llm(reply), registry=tools)
    assert {entry["data"] for entry in observations(result["history"])} == {"Reply must be a JSON object"}
    assert (result["final_answer"], result["steps"]) == (VALVE, 3)


def test_B4_3_open_ended_signatures_are_accepted_and_positional_only_ones_refused() -> None:
    def open_ended(a: int, *rest: int, **more: int) -> None: ...

    def strict(a: int, /) -> None: ...

    def with_default(a: int = 1, /, b: int = 2) -> None: ...

    assert validate_tool_arguments(open_ended, {"a": 1, "anything": 2}, "t") is None
    assert "missing required argument 'a'" in str(validate_tool_arguments(open_ended, {"anything": 2}, "t"))
    assert validate_tool_arguments(lambda *args: None, {}, "t") is None
    assert validate_tool_arguments(dict, {"whatever": 1}, "t") is None
    with pytest.raises(ValueError, match="'a' is positional-only"):
        ToolRegistry().register()(strict)
    assert ToolRegistry().register()(with_default) is with_default


def test_B4_4_a_type_error_inside_a_tool_is_no_complaint_about_arguments(tools: ToolRegistry) -> None:
    tools.register("broken")(lambda: "a" + 1)  # type: ignore[operator]
    seen = observations(run_agent("q", 1, Llm(call("broken")), registry=tools)["history"])
    assert seen[0]["data"] == 'TypeError: can only concatenate str (not "int") to str'


@pytest.mark.parametrize("arguments", ["[1, 2]", '"a"', "3", "false"])
def test_B4_5_arguments_must_be_an_object(tools: ToolRegistry, arguments: str) -> None:
    result = run_agent("q", 1, Llm(f'{{"tool_name": "add", "arguments": {arguments}}}'), registry=tools)
    assert observations(result["history"]) == [{"status": "error", "data": "arguments must be an object", "tool_name": "add"}]


@pytest.mark.parametrize("reply", ['{"tool_name": "now"}', '{"tool_name": "now", "arguments": null}'])
def test_B4_5_null_or_absent_arguments_are_none(tools: ToolRegistry, reply: str) -> None:
    tools.register("now")(lambda: "noon")
    assert observations(run_agent("q", 1, Llm(reply), registry=tools)["history"])[0]["data"] == "noon"


@pytest.mark.parametrize("reply", [BAD + "x" * 3000, "[]"])
def test_B4_6_an_unreadable_reply_is_shown_again_cut_at_2000_characters(reply: str, kit: Any) -> None:
    kept = run(Bare(), kit.Script(reply, answer("x"))).details["history"]
    assert [entry["role"] for entry in kept] == ["user", "assistant", "observation", "assistant"]
    assert kept[1]["content"] == reply[:2000]
    bare_form = run(Bare(keep_bad_replies=False), kit.Script(reply, answer("x"))).details["history"]
    assert [entry["role"] for entry in bare_form] == ["user", "observation", "assistant"]


@pytest.mark.parametrize("keep", [True, False])
def test_B4_6_a_legible_reply_that_states_no_move_stands_whole_in_the_history(keep: bool, kit: Any) -> None:
    reply = json.dumps({"thought": "x" * 3000})
    history = run(Bare(keep_bad_replies=keep), kit.Script(reply, answer("x"))).details["history"]
    assert history[1] == {"role": "assistant", "content": reply}


def test_B4_7_the_limit_wins_over_a_valve_reached_on_the_last_step(kit: Any) -> None:
    outcome = run(Bare(max_steps=3, max_consecutive_errors=3), kit.Script(then=BAD))
    assert (outcome.answer, outcome.stop, outcome.steps) == (CAP, StopReason.MAX_STEPS, 3)
    assert outcome.details["consecutive_errors"] == 3


def test_B4_8_a_null_answer_is_none_given(tools: ToolRegistry) -> None:
    with_tool = '{"final_answer": null, "tool_name": "add", "arguments": {"a": 1, "b": 2}}'
    history = run_agent("q", llm_func=Llm(with_tool, answer("x")), registry=tools)["history"]
    assert observations(history)[0]["data"] == "3"
    alone = run_agent("q", 1, Llm(answer(None)), registry=tools)
    assert observations(alone["history"])[0]["data"] == "No tool_name specified"


@pytest.mark.parametrize(
    ("value", "text"), [("", ""), (0, "0"), (False, "false"), ([], "[]"), ({"é": 1}, '{"é": 1}'), ("3", "3"), (2.5, "2.5")]
)
def test_B4_8_any_other_answer_ends_the_run_as_text(tools: ToolRegistry, value: Any, text: str) -> None:
    result = run_agent("q", llm_func=Llm(answer(value)), registry=tools)
    assert (result["final_answer"], result["steps"]) == (text, 0)


def test_B4_9_the_answer_wins_and_the_dropped_call_is_noted(kit: Any) -> None:
    notes, ran = kit.Notes(), []
    both = '{"final_answer": "x", "tool_name": "spy", "arguments": {}}'
    outcome = run(Bare(), kit.Script(both), Tool.from_function(lambda: ran.append(1), name="spy"), observer=notes)
    assert (outcome.answer, outcome.stop, ran) == ("x", StopReason.FINISHED, [])
    assert notes.notes == [("not_run", {"tool_name": "spy", "reason": "final_answer wins"})]


class Thing:
    def __str__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", "it's"),
        ({"a": [1]}, '{"a": [1]}'),
        ([1, "b"], '[1, "b"]'),
        (True, "true"),
        (2.0, "2.0"),
        (None, "None"),
        (Thing(), "a thing"),
    ],
)
def test_B4_10_results_keep_their_structure_as_text(tools: ToolRegistry, value: Any, text: str) -> None:
    assert create_observation("success", value)["data"] == text
    tools.register("give")(lambda: value)
    assert observations(run_agent("q", 1, Llm(call("give")), registry=tools)["history"])[0]["data"] == text


def test_B4_11_a_failing_llm_func_ends_the_run_and_is_logged(tools: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    def broken(history: list[dict[str, str]], step: int) -> str:
        raise ConnectionError("no route")

    result = run_agent("q", llm_func=broken, registry=tools)
    assert (result["final_answer"], result["steps"]) == (None, 0)
    assert "ConnectionError: no route" in caplog.text


def test_B4_11_observe_feeds_the_failure_back_and_counts_it(kit: Any) -> None:
    loop = Bare(on_provider_error="observe")
    outcome = run(loop, kit.Script(ProviderError("503"), answer("x")))
    assert (outcome.answer, outcome.steps) == ("x", 1)
    assert observed(outcome) == [{"status": "error", "data": "LLM call failed - 503"}]
    assert run(loop, kit.Script(then=ProviderError("503"))).stop is StopReason.ERROR_VALVE


def test_B4_11_llm_func_may_raise_the_models_own_errors_and_must_give_text(tools: ToolRegistry) -> None:
    def raising(error: Exception, history: list[dict[str, str]], step: int) -> str:
        raise error

    config = Bare(on_provider_error="observe")
    assert run_agent("q", 2, partial(raising, ContextOverflow("long")), config=config, registry=tools)["steps"] == 0
    with pytest.raises(BudgetExceeded):
        run_agent("q", llm_func=partial(raising, BudgetExceeded("spent")), registry=tools)

    async def nothing(history: list[dict[str, str]], step: int) -> Any:
        return None

    seen = observations(run_agent("q", 1, nothing, config=config, registry=tools)["history"])
    assert seen[0]["data"] == "LLM call failed - llm_func gave NoneType, not text"


def test_B4_12_observations_are_sent_as_user_and_returned_as_observation(kit: Any) -> None:
    model = kit.Script(ADD, answer("x"))
    outcome = run(Bare(), model)
    sent = model.requests[1].messages[-1]
    kept = outcome.details["history"][2]
    assert (sent.role, kept["role"]) == ("user", "observation")
    assert sent.content == kept["content"] == '{"status": "success", "data": "3", "tool_name": "add"}'


def test_B4_14_the_model_is_told_format_and_tools_and_history_begins_with_the_query(kit: Any) -> None:
    model = kit.Script(answer("x"))
    outcome = run(Bare(), model)
    system, user = model.requests[0].messages
    assert (system.role, user.role, user.content) == ("system", "user", "Q")
    assert system.content.startswith(INSTRUCTIONS)
    assert "\nadd(a: int, b: int) -> int: Add two numbers.\n" in system.content
    assert outcome.details["history"][0] == {"role": "user", "content": "Q"}


def test_B4_14_a_query_that_is_part_of_the_call_has_its_context(kit: Any) -> None:
    model = kit.Script(answer("x"))
    run_sync(Bare(instructions=None).run(Query("Who?", context="Ann."), Toolbox(), model))
    assert [message.content for message in model.requests[0].messages] == ["Who?\n\nContext:\nAnn."]


@pytest.mark.parametrize("valve", [1, 2, 5])
def test_B4_15_the_valves_text_has_its_number(tools: ToolRegistry, valve: int) -> None:
    result = run_agent("q", llm_func=Llm(BAD), max_consecutive_errors=valve, registry=tools)
    assert result["final_answer"] == f"Agent terminated: {valve} consecutive errors detected"


def test_B4_16_limits_below_one_are_refused_and_none_is_no_valve(kit: Any) -> None:
    for steps, valve in ((0, 3), (-1, 3), (10, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            Bare(max_steps=steps, max_consecutive_errors=valve)
    assert run(Bare(max_steps=8, max_consecutive_errors=None), kit.Script(then=BAD)).steps == 8


def test_B4_17_wrong_types_pass_unless_check_types_is_on(kit: Any) -> None:
    wrong = call("add", a="1", b="x")
    assert observed(run(Bare(), kit.Script(wrong, answer("x"))))[0]["data"] == "1x"
    checked = observed(run(Bare(check_types=True), kit.Script(wrong, answer("x"))))[0]
    assert checked["status"] == "error"
    assert "argument 'b'" in checked["data"]


# --- options: each one changes what the loop does ---


FORMATS_SAY: dict[str, tuple[Any, Any]] = {
    "json": (
        Reply('{"thought": "Go.", "tool_name": "add", "arguments": {"a": 2, "b": 3}}'),
        Reply('{"final_answer": "5"}'),
    ),
    "fields": (Reply('Thought: Go.\nTool: add\nArguments: {"a": 2, "b": 3}'), Reply("Thought: Done.\nAnswer: 5")),
    "native": (Reply("Go.", (NativeCall("x1", "add", '{"a": 2, "b": 3}'),)), Reply("5")),
}


@pytest.mark.parametrize("form", FORMATS_SAY)
def test_option_decision_format_changes_how_a_decision_is_written_and_nothing_else(form: str, kit: Any) -> None:
    model = kit.Script(*FORMATS_SAY[form])
    outcome = run_sync(Bare(decision_format=form).run(Query("2 + 3?"), Toolbox((add,)), model))  # type: ignore[arg-type]
    assert (outcome.answer, outcome.stop, outcome.steps) == ("5", StopReason.FINISHED, 1)
    system, question, said, seen = model.requests[-1].messages
    assert "add(a: int, b: int) -> int: " in system.content
    assert question == Message("user", "2 + 3?")
    assert (said.content, said.calls) == (FORMATS_SAY[form][0].text, FORMATS_SAY[form][0].calls)
    assert seen.content == '{"status": "success", "data": "5", "tool_name": "add"}'
    assert (seen.role, seen.call_id) == (("tool", "x1") if form == "native" else ("user", ""))
    assert [request.tools != () for request in model.requests] == [form == "native"] * 2


@pytest.mark.parametrize(
    ("form", "bad", "words"),
    [
        ("fields", Reply("I think so."), "must have lines that begin with"),
        ("fields", Reply("Thought: Go."), "No Tool: line"),
        ("fields", Reply("Tool: add\nArguments: {a}"), "Arguments: no JSON"),
        ("fields", Reply("Tool: add\nArguments: [1]"), "arguments must be an object"),
        ("native", Reply(""), "The reply is empty"),
        ("native", Reply("", (NativeCall("1", "add", "{"),)), "Invalid JSON in the arguments"),
        ("native", Reply("", (NativeCall("1", "add", "{}"), NativeCall("2", "add", "{}"))), "one tool at a time"),
        ("native", Reply("", (NativeCall("1", "", "{}"),)), "No tool name"),
    ],
)
def test_option_decision_format_has_its_unreadable_replies_fed_back(form: Any, bad: Reply, words: str, kit: Any) -> None:
    model = kit.Script(bad, *FORMATS_SAY[form])
    outcome = run_sync(Bare(decision_format=form).run(Query("2 + 3?"), Toolbox((add,)), model))
    assert (outcome.answer, outcome.steps) == ("5", 2)
    shown = model.requests[1].messages[3:]
    assert all(words in message.content for message in shown)
    assert [message.call_id for message in shown] == [call.id for call in bad.calls] or [""]


def test_option_decision_format_native_needs_a_model_and_bad_ones_are_refused() -> None:
    with pytest.raises(ValueError, match=r"llm_func gives text"):
        run_agent("?", config=Bare(decision_format="native"))
    with pytest.raises(ValueError, match=r"decision_format must be one of json, fields, native, not 'yaml'"):
        Bare(decision_format="yaml")  # type: ignore[arg-type]


def test_option_max_steps_bounds_the_model_calls(kit: Any) -> None:
    for steps in (1, 4):
        model = kit.Script(then=ADD)
        run(Bare(max_steps=steps), model)
        assert len(model.requests) == steps


@pytest.mark.parametrize(("valve", "steps"), [(2, 2), (3, 3), (5, 5), (None, 10)])
def test_option_max_consecutive_errors_sets_or_removes_the_valve(valve: int | None, steps: int, kit: Any) -> None:
    outcome = run(Bare(max_consecutive_errors=valve), kit.Script(then=BAD))
    assert outcome.steps == steps
    assert outcome.stop is (StopReason.MAX_STEPS if valve is None else StopReason.ERROR_VALVE)


def test_option_instructions_are_the_system_text_or_absent(kit: Any) -> None:
    for instructions, roles in (("Be brief.", ["system", "user"]), (None, ["user"])):
        model = kit.Script(answer("x"))
        run(Bare(instructions=instructions), model)
        assert [message.role for message in model.requests[0].messages] == roles


def test_option_keep_bad_replies_shows_the_model_its_own_words(kit: Any) -> None:
    for keep in (True, False):
        model = kit.Script(BAD, answer("x"))
        run(Bare(keep_bad_replies=keep), model)
        assert (BAD in [message.content for message in model.requests[1].messages]) is keep


def test_option_validate_arguments_leaves_the_check_to_the_call_when_off(kit: Any) -> None:
    wrong = call("add", a=1, b=2, c=3)
    checked = observed(run(Bare(), kit.Script(wrong, answer("x"))))[0]["data"]
    unchecked = observed(run(Bare(validate_arguments=False), kit.Script(wrong, answer("x"))))[0]["data"]
    assert checked.startswith("Error: Tool 'add' does not accept")
    assert unchecked == "TypeError: add() got an unexpected keyword argument 'c'"


def test_option_check_types_refuses_before_the_call(kit: Any) -> None:
    for check, runs in ((False, 1), (True, 0)):
        ran: list[Any] = []

        def spy(x: int, into: list[Any] = ran) -> None:
            into.append(x)

        run(Bare(check_types=check), kit.Script(call("spy", x="one"), answer("x")), spy)
        assert len(ran) == runs


def test_option_list_tools_in_error_can_be_left_out(kit: Any) -> None:
    for listed, text in ((True, "Tool 'fly' not found. Available tools: add, divide, lookup"), (False, "Tool 'fly' not found")):
        outcome = run(Bare(list_tools_in_error=listed), kit.Script(call("fly"), answer("x")))
        assert observed(outcome)[0]["data"] == text


def test_option_error_type_in_text_can_be_left_out(kit: Any) -> None:
    for typed, text in ((True, "KeyError: 'e'"), (False, "'e'")):
        outcome = run(Bare(error_type_in_text=typed), kit.Script(call("lookup", key="e"), answer("x")))
        assert observed(outcome)[0]["data"] == text


def test_option_on_provider_error_ends_the_run_or_goes_on(kit: Any) -> None:
    for loop, stop in ((Bare(), StopReason.PROVIDER_ERROR), (Bare(on_provider_error="observe"), StopReason.FINISHED)):
        assert run(loop, kit.Script(ProviderError("429"), answer("x"))).stop is stop


# --- G and X: rules for all designs ---


def test_G_2_bare_final_answer_is_finished(kit: Any) -> None:
    assert run(Bare(), kit.Script(answer("x"))).stop is StopReason.FINISHED


def test_G_2_bare_error_valve(kit: Any) -> None:
    outcome = run(Bare(), kit.Script(then=BAD))
    assert (outcome.stop, outcome.answer) == (StopReason.ERROR_VALVE, VALVE)


def test_G_2_bare_limit_is_max_steps_with_canned_text(kit: Any) -> None:
    outcome = run(Bare(max_steps=2), kit.Script(then=ADD))
    assert (outcome.stop, outcome.answer) == (StopReason.MAX_STEPS, CAP)


def test_G_2_bare_provider_error(kit: Any) -> None:
    outcome = run(Bare(), kit.Script(ADD, ProviderError("down")))
    assert (outcome.stop, outcome.answer, outcome.details["error"]) == (StopReason.PROVIDER_ERROR, None, "down")


def test_G_2_bare_context_overflow_whatever_the_option(kit: Any) -> None:
    for loop in (Bare(), Bare(on_provider_error="observe")):
        outcome = run(loop, kit.Script(ADD, ContextOverflow("long")))
        assert (outcome.stop, outcome.answer) == (StopReason.CONTEXT_OVERFLOW, None)


def test_G_3_bare_a_provider_error_is_followed_by_no_further_call(kit: Any) -> None:
    model = kit.Script(ProviderError("down"), then=answer("x"))
    run(Bare(), model)
    assert len(model.requests) == 1


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), ZeroDivisionError("a bug")])
def test_G_3_bare_budget_cancellation_and_bugs_leave_the_loop(leaving: BaseException, kit: Any) -> None:
    with pytest.raises(type(leaving)):
        run(Bare(on_provider_error="observe"), kit.Script(ADD, leaving))


def test_G_3_bare_cancelling_the_run_cancels_the_model_call(kit: Any) -> None:
    async def main() -> list[str]:
        heard: list[str] = []

        async def never(history: list[dict[str, str]], step: int) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise
            return ""

        task = asyncio.create_task(arun_agent("q", llm_func=never))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard

    assert run_sync(main()) == ["cancelled"]


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("leaving", [KeyboardInterrupt, asyncio.CancelledError])
def test_G_5_bare_interrupts_of_a_tool_leave_the_loop(leaving: type[BaseException], blocking: bool, kit: Any) -> None:
    def stop() -> None:
        raise leaving

    with pytest.raises(leaving):
        run(Bare(), kit.Script(call("stop")), Tool.from_function(stop, blocking=blocking))


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("v"), "ValueError - v"),
        (SystemExit(2), "SystemExit: 2"),
        (GeneratorExit("g"), "GeneratorExit: g"),
        (OSError(), "OSError: "),
    ],
)
def test_G_5_X_10_bare_whatever_else_a_tool_raises_is_an_error_result(
    raised: BaseException, text: str, blocking: bool, kit: Any
) -> None:
    def bad() -> None:
        raise raised

    outcome = run(Bare(), kit.Script(call("bad"), answer("x")), Tool.from_function(bad, blocking=blocking))
    assert observed(outcome) == [{"status": "error", "data": text, "tool_name": "bad"}]
    assert outcome.answer == "x"


def test_G_5_X_10_bare_what_json_cannot_say_is_shown_as_its_text(kit: Any) -> None:
    outcome = run(Bare(), kit.Script(call("give"), answer("x")), Tool.from_function(lambda: Thing(), name="give"))
    assert observed(outcome)[0] == {"status": "success", "data": "a thing", "tool_name": "give"}


def test_X_10_bare_a_hung_tool_is_an_error_result(kit: Any) -> None:
    let_go = threading.Event()
    tools = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang")], time_limit_s=0.02)
    outcome = run_sync(Bare().run(Query("Q"), tools, kit.Script(call("hang"), answer("x"))))
    let_go.set()
    assert observed(outcome)[0]["data"] == "TimeoutError: no result within 0.02 s"
    assert outcome.answer == "x"


@pytest.mark.parametrize("name", ["submit", "branch", "finish", "__finish__"])
def test_G_6_X_18_no_tool_name_is_reserved_here(name: str, kit: Any) -> None:
    outcome = run(Bare(), kit.Script(call(name), answer("x")), Tool.from_function(lambda: "ran", name=name))
    assert observed(outcome)[0] == {"status": "success", "data": "ran", "tool_name": name}


@given(st.integers(0, 30))
def test_G_8_bare_n_tool_steps_are_n_plus_one_steps(tool_steps: int) -> None:
    limited = Bare(check_types=True).with_step_limit(tool_steps)
    assert limited == Bare(check_types=True, max_steps=tool_steps + 1)


def test_G_8_bare_a_plan_as_long_as_the_limit_can_be_answered(kit: Any) -> None:
    outcome = run(Bare().with_step_limit(3), kit.Script(ADD, ADD, ADD, answer("x")))
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 3)


def test_G_8_bare_the_seeds_limit_is_the_default_and_what_the_user_typed_wins() -> None:
    assert Bare().max_steps == 10
    assert make_loop(parse_spec("bare"), 4) == Bare(max_steps=5)
    assert make_loop(parse_spec("bare(max_steps=2)"), 4) == Bare(max_steps=2)


ODD_REPLIES = {
    '{"tool_name": "add", "arguments": {"a": 1,': "Invalid JSON response from LLM - ",
    '{"tool_name": "add", "arguments": "{\\"a\\": 1}"}': "arguments must be an object",
    '{"tool_name": "add", "arguments": [1]}': "arguments must be an object",
    '{"tool_name": "add", "arguments": 7}': "arguments must be an object",
    '{"tool_name": "add", "arguments": null}': "Error: Tool 'add' missing required argument 'a'",
    "[1]": "Reply must be a JSON object",
    "": "Invalid JSON response from LLM - ",
    '{"a": NaN}': "Invalid JSON response from LLM - NaN is not JSON",
    "[" * 100_000: "Invalid JSON response from LLM - ",
}


@pytest.mark.parametrize("reply", ODD_REPLIES, ids=lambda reply: reply[:40])
def test_X_6_bare_malformed_replies_are_observations(reply: str, kit: Any) -> None:
    outcome = run(Bare(), kit.Script(reply, answer("x")))
    assert observed(outcome)[0]["data"].startswith(ODD_REPLIES[reply])
    assert outcome.answer == "x"


def test_X_6_bare_answer_and_tool_in_one_reply_is_an_answer(kit: Any) -> None:
    assert run(Bare(), kit.Script('{"tool_name": "add", "final_answer": 0}')).answer == "0"


def test_X_19_valve_and_limit_on_the_same_step_is_max_steps(kit: Any) -> None:
    loop = Bare(max_steps=2, max_consecutive_errors=2)
    assert run(loop, kit.Script(then=BAD)).stop is StopReason.MAX_STEPS
    assert StopReason.ERROR_VALVE not in loop.stops


def test_X_19_valve_of_zero_is_refused_and_of_one_ends_after_one_error(kit: Any) -> None:
    with pytest.raises(ValueError, match="max_consecutive_errors"):
        Bare(max_consecutive_errors=0)
    outcome = run(Bare(max_consecutive_errors=1), kit.Script(BAD))
    assert (outcome.stop, outcome.steps) == (StopReason.ERROR_VALVE, 1)


def test_X_19_validation_errors_count_and_model_exceptions_only_when_observed(kit: Any) -> None:
    assert run(Bare(), kit.Script(then=call("add", z=1))).stop is StopReason.ERROR_VALVE
    uncounted = run(Bare(), kit.Script(BAD, ProviderError("down")))
    assert uncounted.details["consecutive_errors"] == 1
    counted = run(Bare(on_provider_error="observe"), kit.Script(BAD, BAD, ProviderError("down")))
    assert (counted.stop, counted.details["consecutive_errors"]) == (StopReason.ERROR_VALVE, 3)


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def up(self, by: int = 1) -> int:
        """Count up."""
        self.n += by
        return self.n


@dataclasses.dataclass
class Unhashable:
    """A callable that can be no dictionary's key."""

    offset: int = 1

    def __call__(self, x: int) -> int:
        return x + self.offset


async def later(x: int, *, twice: bool = False) -> int:
    """Give x after a while."""
    await asyncio.sleep(0)
    return x * 2 if twice else x


@pytest.mark.parametrize(
    ("function", "arguments", "data"),
    [
        (lambda *args, **kwargs: sorted(kwargs), {"b": 1, "a": 2}, '["a", "b"]'),
        (lambda *args: len(args), {"x": 1}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: "),
        (lambda x=1, /, y=2: x + y, {"y": 5}, "6"),
        (lambda x=1, /, y=2: x + y, {"x": 5}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: y"),
        (lambda *, only: only, {"only": 1}, "1"),
        (lambda *, only: only, {}, "Error: Tool 't' missing required argument 'only'"),
        (Counter().up, {}, "1"),
        (Counter().up, {"by": 3}, "3"),
        (Counter().up, {"self": 3}, "Error: Tool 't' does not accept argument 'self'. Valid parameters: by"),
        (later, {"x": 2, "twice": True}, "4"),
        (later, {}, "Error: Tool 't' missing required argument 'x'"),
        (dict, {"free": 1}, '{"free": 1}'),
        (partial(add, b=1), {"a": 1}, "2"),
        (Unhashable(2), {"x": 1}, "3"),
        (Unhashable(2), {"y": 1}, "Error: Tool 't' does not accept argument 'y'. Valid parameters: x"),
    ],
)
def test_X_20_validator_knows_every_kind_of_parameter(function: Callable[..., Any], arguments: dict[str, Any], data: str) -> None:
    tools = ToolRegistry()
    tools.register("t")(function)
    assert observations(run_agent("q", 1, Llm(call("t", **arguments)), registry=tools)["history"])[0]["data"] == data


NAMES = st.sampled_from("abcde")


@given(
    needed=st.lists(NAMES, unique=True, max_size=3),
    optional=st.lists(st.sampled_from("vwxyz"), unique=True, max_size=2),
    open_ended=st.booleans(),
    given_names=st.sets(st.sampled_from("abcdevwxyz")),
)
@settings(deadline=None)
def test_X_20_validator_passes_exactly_what_python_could_call(
    needed: list[str], optional: list[str], open_ended: bool, given_names: set[str]
) -> None:
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in needed]
    parameters += [kinds(name, kinds.KEYWORD_ONLY, default=0) for name in optional]
    parameters += [kinds("rest", kinds.VAR_KEYWORD)] if open_ended else []

    def tool() -> None: ...

    signature = tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    arguments = dict.fromkeys(given_names)
    try:
        signature.bind(**arguments)
        callable_so = True
    except TypeError:
        callable_so = False
    assert (validate_tool_arguments(tool, arguments, "t") is None) is callable_so


@given(
    loop=st.builds(Bare, max_steps=st.integers(1, 5), max_consecutive_errors=st.none() | st.integers(1, 5)),
    good=st.integers(0, 4),
)
@settings(deadline=None, max_examples=50)
def test_X_21_bare_the_valve_is_declared_exactly_where_it_can_be_reached(loop: Bare, good: int, kit: Any) -> None:
    stop = run(loop, kit.Script(*[ADD] * good, then=BAD)).stop
    assert stop in loop.stops
    if good == 0:
        assert (stop is StopReason.ERROR_VALVE) is (StopReason.ERROR_VALVE in loop.stops)


def test_system_text_of_a_tool_without_docstring_or_signature(kit: Any) -> None:
    model = kit.Script(answer("x"))
    run(Bare(instructions="I"), model, Tool("raw", "", {"type": "object"}, dict), Tool.from_function(lambda x: x, name="anon"))
    assert model.requests[0].messages[0].content.splitlines() == ["I", "raw(...)", "anon(x)"]


def test_run_agent_takes_an_async_llm_func_and_runs_inside_an_event_loop(tools: ToolRegistry) -> None:
    async def llm(history: list[dict[str, str]], step: int) -> str:
        await asyncio.sleep(0)
        return answer(str(step))

    async def main() -> dict[str, Any]:
        return run_agent("q", llm_func=llm, registry=tools)

    assert run_sync(main())["final_answer"] == "0"


def test_signatures_of_finished_tools_are_let_go() -> None:
    def once(x: int) -> None: ...

    assert validate_tool_arguments(once, {"x": 1}, "once") is None
    before = len(bare._SIGNATURES)
    del once
    assert len(bare._SIGNATURES) == before - 1


def test_every_option_has_a_line_of_documentation() -> None:
    source = inspect.getsource(Bare)
    for field in dataclasses.fields(Bare):
        assert re.search(rf'    {field.name}: [^\n]+\n    """[A-Zs]', source), field.name


def test_tool_calls_reach_the_toolbox_unchanged(kit: Any) -> None:
    class Keeping(Toolbox):
        calls: list[ToolCall]

        async def call(self, call: ToolCall, *, validate: bool = True) -> Any:
            self.calls.append(call)
            return await super().call(call, validate=validate)

    box = Keeping([add])
    box.calls = []
    run_sync(Bare().run(Query("Q"), box, kit.Script(ADD, answer("x"))))
    assert box.calls == [ToolCall("add", {"a": 1, "b": 2})]


class Box(BaseModel):
    width: int
    height: int


@pytest.mark.parametrize(
    ("function", "arguments", "shown"),
    [
        (lambda box: box.width * box.height, {"box": {"width": 2, "height": 3}}, "6"),
        (lambda day: day.year, {"day": "2020-02-01"}, "2020"),
    ],
    ids=["nested model", "date"],
)
def test_arguments_that_fit_reach_a_toolbox_tool_converted(function, arguments, shown) -> None:
    (name,) = arguments
    function.__annotations__ = {name: {"box": Box, "day": datetime.date}[name]}
    assert seen_by(Tool.from_function(function, name="tool"), arguments) == ("success", shown)


def positional(a: int, b: int = 1, /, *rest: int) -> int:
    """A sum."""
    return a + b + sum(rest)


@pytest.mark.parametrize(("arguments", "shown"), [({"a": 1}, "2"), ({"a": 1, "b": 2, "rest": [3, 4]}, "10")])
def test_a_toolbox_tool_may_take_its_arguments_by_place(arguments, shown) -> None:
    assert seen_by(Tool.from_function(positional), arguments) == ("success", shown)


def test_a_tool_that_changes_its_argument_does_not_change_the_move() -> None:
    given = {"xs": [1, 2]}

    def drain(xs: Any) -> int:
        """Takes all there is."""
        total: int = sum(xs)
        xs.clear()
        return total

    assert seen_by(Tool.from_function(drain), given) == ("success", "3")
    assert given == {"xs": [1, 2]}


def seen_by(tool: Tool, arguments: dict[str, Any]) -> tuple[str, str]:
    """Status and data of the observation that bare makes of one call."""
    return run_sync(Bare()._act(ToolCall(tool.name, arguments), Toolbox([tool])))
