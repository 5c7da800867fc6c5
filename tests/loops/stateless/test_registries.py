"""The stateless design: where tools come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import as_completed
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, STOP, Watch, add, fail, search, think
from tests.rows import row
from whichloop.loops.stateless import (
    ActivityManager,
    DSPyToolRegistryAdapter,
    ManualAgentLoop,
    MultiToolRegistry,
    ToolboxRegistry,
    ToolCall,
    ToolRegistry,
)
from whichloop.protocol import (
    Text,
    Toolbox,
)


@row("S0-17")
def test_the_registry_protocol_is_checked_at_run_time() -> None:
    assert isinstance(ToolboxRegistry(Toolbox()), ToolRegistry)
    assert isinstance(DSPyToolRegistryAdapter(MultiToolRegistry()), ToolRegistry)
    assert not isinstance(MultiToolRegistry(), ToolRegistry)
    with pytest.raises(TypeError, match="no tool registry"):
        ManualAgentLoop(object())


@row("S0-18")
def test_the_adapter_maps_errors_names_and_descriptions() -> None:
    argument = SimpleNamespace(name="city", type="string", description="Where", required=True)
    definitions = [
        SimpleNamespace(name=SimpleNamespace(value="weather"), description="W.", arguments=[argument]),
        SimpleNamespace(name="plain", description="P.", arguments=None),
    ]

    class Existing:
        def __init__(self) -> None:
            self._functions: dict[str, Callable[..., Any]] = {"weather": add, "plain": search}

        def get_function(self, name: str) -> Callable[..., Any]:
            return self._functions[name]

        def get_tool_definitions(self) -> list[Any]:
            return definitions

    adapter = DSPyToolRegistryAdapter(Existing())
    assert adapter.get_tool("weather") is add
    with pytest.raises(ValueError, match="Tool 'nope' not found in registry"):
        adapter.get_tool("nope")
    assert adapter.get_all_tool_names() == ["weather", "plain"]
    assert adapter.get_all_tool_descriptions() == [
        {
            "name": "weather",
            "description": "W.",
            "parameters": [{"name": "city", "type": "string", "description": "Where", "required": True}],
        },
        {"name": "plain", "description": "P.", "parameters": []},
    ]


@row("S0-65")
def test_a_multi_tool_registry_registers_functions_and_defines_them() -> None:
    registry = MultiToolRegistry()
    registry.register(add, fail)
    assert registry.get_function("add") is add
    with pytest.raises(KeyError):
        registry.get_function("nope")
    described = DSPyToolRegistryAdapter(registry).get_all_tool_descriptions()
    assert [item["name"] for item in described] == ["add", "fail"]
    assert described[0]["parameters"][0] == {"name": "a", "type": "integer", "description": "", "required": True}
    assert described[1]["parameters"][0]["required"] is False


class Names:
    """A registry that tells nothing of parameters."""

    def get_tool(self, tool_name: str) -> Callable[..., Any]:
        if tool_name == "lost":
            raise ValueError("Tool 'lost' not found in registry")
        return add

    def get_all_tool_names(self) -> list[str]:
        return ["add"]

    def get_all_tool_descriptions(self) -> list[dict[str, Any]]:
        return [{"name": "add", "description": "Sums."}]


@row("S0-65")
def test_a_registry_without_parameters_in_its_descriptions_works() -> None:
    decider = ManualAgentLoop(Names(), response_style=None, model=Script(think(ADD), STOP))
    result = ActivityManager(decider, Names()).run_activity("Q")
    assert (result["final_response"], result["tools_used"]) == ("3", ["add"])


@row("B0-11")
def test_agent_and_manager_share_one_registry_raw_or_wrapped() -> None:
    registry = MultiToolRegistry()
    registry.register(add)
    for first in (registry, DSPyToolRegistryAdapter(registry)):
        decider = ManualAgentLoop(tool_registry=first, enable_error_recovery=True, model=Script(think(ADD), STOP, Text("3")))
        made = ActivityManager(agent_loop=decider, tool_registry=registry, max_iterations=5, execution_mode="sequential")
        result = made.run_activity("How much is it?")
        assert (result["final_response"], result["iterations"], result["tools_used"]) == ("3", 2, ["add"])


class AsInTheDocument(ActivityManager):
    """Executes calls in the words of the document, which reads the registry's `get_function` and the manager's `executor`."""

    def _execute_sequential(self, tool_calls: list[ToolCall]) -> Any:
        results: list[dict[str, Any]] = []
        for tool_call in tool_calls:
            try:
                tool_func = self.tool_registry.get_function(tool_call.tool_name)  # type: ignore[attr-defined]  # not in the protocol
                start_time = time.time()
                result = tool_func(**tool_call.parameters)
                execution_time = time.time() - start_time
                results.append(
                    {
                        "tool_name": tool_call.tool_name,
                        "status": "success",
                        "result": result,
                        "execution_time": execution_time,
                        "parameters": tool_call.parameters,
                    }
                )
            except Exception as e:
                results.append(
                    {
                        "tool_name": tool_call.tool_name,
                        "status": "error",
                        "error": str(e),
                        "error_type": type(e).__name__,
                        "parameters": tool_call.parameters,
                    }
                )
        return results

    def _execute_parallel(self, tool_calls: list[ToolCall]) -> Any:
        futures = {self.executor.submit(self._execute_single_tool, tool_call): tool_call for tool_call in tool_calls}
        return [future.result() for future in as_completed(futures, timeout=30)]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("kind", ["toolbox", "registry"])
@row("B0-11")
def test_overrides_in_the_words_of_the_document_run(mode: Any, kind: str) -> None:
    many = MultiToolRegistry()
    many.register(add, fail)
    given: Any = Toolbox([add, fail]) if kind == "toolbox" else many
    asked: list[tuple[str, dict[str, Any]]] = [("add", {"a": 1, "b": 2}), ("fail", {"why": "broken"}), ("gone", {})]
    ends = []
    for manager in (ActivityManager, AsInTheDocument):
        agent = ManualAgentLoop(given, response_style=None, enable_error_recovery=False, model=Script(think(*asked), STOP))
        made = manager(agent, given, execution_mode=mode)
        state = made.new_state("Q")
        assert made.continue_activity(state)["status"] == "completed"
        ends.append(sorted((item["tool_name"], item.get("result"), item.get("error")) for item in state.last_tool_results or ()))
    assert ends[0] == ends[1]
    assert ends[0][0] == ("add", 3, None)


@row("B0-11")
def test_the_executor_runs_functions_and_coroutines_at_most_five_at_a_time() -> None:
    made = ActivityManager(ManualAgentLoop(Toolbox()), Toolbox())
    assert made.executor is made.executor

    async def later(n: int) -> int:
        return n + 1

    assert [made.executor.submit(kind, 1).result() for kind in (later, str)] == [2, "1"]
    watch = Watch()
    assert [future.result() for future in [made.executor.submit(watch.work, n) for n in range(8)]] == list(range(8))
    assert 1 < watch.most <= 5
