"""The stateless design: where tools come from."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, STOP, add, fail, search, think
from tests.rows import row
from whichloop.loops.stateless import (
    ActivityManager,
    DSPyToolRegistryAdapter,
    ManualAgentLoop,
    MultiToolRegistry,
    ToolboxRegistry,
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
