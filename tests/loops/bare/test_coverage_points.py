"""Design 4, the bare loop: the document's 24 coverage points, in its order."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from tests.loops.bare.helpers import (
    ADD,
    BAD,
    CAP,
    ERROR_CLASSES,
    HEAVY,
    Llm,
    add,
    answer,
    call,
    observations,
)
from tests.rows import row
from whichloop.loops import bare
from whichloop.loops.bare import validate_tool_arguments
from whichloop.loops.bare_standalone import ToolRegistry, run_agent


@row("S4-19")
def test_01_tool_registration_and_execution(tools: ToolRegistry) -> None:
    tools.register()(lambda: "ran")
    assert observations(run_agent("q", 1, Llm(call("<lambda>")), registry=tools)["history"])[0]["data"] == "ran"


@row("S4-19")
def test_02_value_error_without_crash(tools: ToolRegistry) -> None:
    result = run_agent("q", llm_func=Llm(call("divide", a=1, b=0), answer("no")), registry=tools)
    assert observations(result["history"])[0]["data"] == "ValueError - Cannot divide by zero"
    assert result["final_answer"] == "no"


@row("S4-19")
def test_03_non_existent_tool(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("fly")), registry=tools)["history"])
    assert seen[0]["data"].startswith("Tool 'fly' not found")


@row("S4-19")
def test_04_invalid_arguments(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("add", x=1)), registry=tools)["history"])
    assert "does not accept argument 'x'" in seen[0]["data"]


@row("S4-19")
def test_05_max_steps_termination(tools: ToolRegistry) -> None:
    result = run_agent("q", 4, Llm(ADD), registry=tools)
    assert (result["steps"], result["final_answer"]) == (4, CAP)


@row("S4-19")
def test_06_while_loop(tools: ToolRegistry) -> None:
    llm = Llm(ADD, ADD, ADD, answer("x"))
    run_agent("q", 10, llm, registry=tools)
    assert llm.steps == [0, 1, 2, 3]


@row("S4-19")
def test_07_no_forbidden_frameworks() -> None:
    imported = set()
    for node in ast.walk(ast.parse(Path(bare.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert not imported & set(HEAVY)
    assert "whichloop" in imported


@row("S4-19")
def test_08_add_is_executed(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm(call("add", a=40, b=2)), registry=tools)["history"])
    assert seen == [{"status": "success", "data": "42", "tool_name": "add"}]


@row("S4-19")
def test_09_history_structure_is_kept(tools: ToolRegistry) -> None:
    llm = Llm(ADD, call("add", a=3, b=3), answer("x"))
    history = run_agent("q", llm_func=llm, registry=tools)["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant", "observation", "assistant", "observation", "assistant"]
    assert all(entry.keys() == {"role", "content"} for entry in history)
    assert [len(shown) for shown, _ in llm.seen] == [2, 4, 6]


@row("S4-19")
def test_10_json_is_parsed_from_replies(tools: ToolRegistry) -> None:
    seen = observations(
        run_agent("q", 1, Llm(' \n{"tool_name": "add", "arguments": {"a": 1e0, "b": -2}}\n'), registry=tools)["history"]
    )
    assert seen[0]["data"] == "-1.0"


@row("S4-19")
def test_11_invalid_json_is_an_error_observation(tools: ToolRegistry) -> None:
    seen = observations(run_agent("q", 1, Llm("```json\n{}\n```"), registry=tools)["history"])
    assert seen[0]["data"].startswith("Invalid JSON response from LLM - ")


@row("S4-19")
def test_12_a_final_answer_ends_the_loop_early(tools: ToolRegistry) -> None:
    llm = Llm(answer("done"), ADD)
    assert run_agent("q", 10, llm, registry=tools)["final_answer"] == "done"
    assert len(llm.seen) == 1


@row("S4-19")
def test_13_observations_are_shown_to_the_model(tools: ToolRegistry) -> None:
    llm = Llm(ADD, answer("x"))
    run_agent("q", llm_func=llm, registry=tools)
    assert json.loads(llm.seen[1][0][-1]["content"])["data"] == "3"


@row("S4-19")
def test_14_tools_run_one_after_the_other(tools: ToolRegistry) -> None:
    order: list[str] = []
    tools.register("first")(lambda: order.append("first"))
    tools.register("second")(lambda: order.append("second"))
    run_agent("q", llm_func=Llm(call("second"), call("first"), call("second"), answer("x")), registry=tools)
    assert order == ["second", "first", "second"]


@row("S4-19")
def test_15_an_error_is_corrected_and_tried_again(tools: ToolRegistry) -> None:
    def corrects_itself(history: list[dict[str, str]], step: int) -> str:
        last = history[-1]["content"]
        if "Cannot divide by zero" in last:
            return call("divide", a=6, b=2)
        return answer(json.loads(last)["data"]) if step > 1 else call("divide", a=6, b=0)

    result = run_agent("q", llm_func=corrects_itself, registry=tools)
    assert (result["final_answer"], result["steps"]) == ("3.0", 2)


@row("S4-19")
def test_16_missing_tool_name(tools: ToolRegistry) -> None:
    for reply in ('{"arguments": {}}', '{"tool_name": null}', '{"tool_name": ""}'):
        assert observations(run_agent("q", 1, Llm(reply), registry=tools)["history"])[0]["data"] == "No tool_name specified"


@row("S4-19")
def test_17_custom_tool_name(tools: ToolRegistry) -> None:
    tools.register("plus")(add)
    seen = observations(run_agent("q", 1, Llm(call("plus", a=1, b=1)), registry=tools)["history"])
    assert seen[0] == {"status": "success", "data": "2", "tool_name": "plus"}


@row("S4-19")
def test_18_list_of_tools(tools: ToolRegistry) -> None:
    assert tools.list_tools() == ["add", "divide", "lookup"]
    assert ToolRegistry().list_tools() == []


@row("S4-19")
def test_19_the_exceptions_type_is_kept(tools: ToolRegistry) -> None:
    class Weather(Exception):
        """Raised below."""

    def rain() -> None:
        raise Weather("wet")

    tools.register()(rain)
    assert observations(run_agent("q", 1, Llm(call("rain")), registry=tools)["history"])[0]["data"] == "Weather: wet"


@row("S4-19")
def test_20_steps_are_right_on_every_path(tools: ToolRegistry) -> None:
    mixed = [ADD, *(reply for reply, _, _ in ERROR_CLASSES)]
    llm = Llm(*mixed, answer("x"))
    assert run_agent("q", 20, llm, max_consecutive_errors=20, registry=tools)["steps"] == len(mixed)
    assert llm.steps == list(range(len(mixed) + 1))


@row("S4-19")
def test_21_extra_and_missing_arguments_are_caught() -> None:
    assert "does not accept argument 'z'" in str(validate_tool_arguments(add, {"z": 0}, "add"))
    assert "missing required argument 'b'" in str(validate_tool_arguments(add, {"a": 0}, "add"))


@row("S4-19")
def test_22_observations_follow_one_schema(tools: ToolRegistry) -> None:
    replies = [ADD, *(reply for reply, _, _ in ERROR_CLASSES)]
    result = run_agent("q", 20, Llm(*replies, answer("x")), max_consecutive_errors=None, registry=tools)
    for seen in observations(result["history"]):
        assert seen["status"] in ("success", "error")
        assert seen.keys() in ({"status", "data"}, {"status", "data", "tool_name"})


@row("S4-19")
def test_23_the_valve_stops_a_run_of_errors(tools: ToolRegistry) -> None:
    result = run_agent("q", 50, Llm(BAD), max_consecutive_errors=4, registry=tools)
    assert (result["final_answer"], result["steps"]) == ("Agent terminated: 4 consecutive errors detected", 4)


@row("S4-19")
def test_24_success_resets_the_counter(tools: ToolRegistry) -> None:
    result = run_agent("q", 7, Llm(*[BAD, BAD, ADD] * 2, answer("through")), registry=tools)
    assert result["final_answer"] == "through"
