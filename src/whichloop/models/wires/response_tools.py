"""The tools of a Responses request, and how the model is to call them, in OpenAI's words (sources: docs/serve.md).

The model never calls tools of OpenAI's own types. Where a request forces one of them, or has no others, it answers as if
nothing were forced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import ToolSpec

from .fields import invalid_value, name_field, required, required_text
from .openai_fields import function_tool, tool_choice, tool_list

_VENDORS_TOOLS = frozenset(
    {
        "apply_patch", "code_interpreter", "computer", "computer_use_preview", "custom", "file_search", "image_generation",
        "local_shell", "mcp", "namespace", "programmatic_tool_calling", "shell", "tool_search", "web_search",
        "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
    }
)  # fmt: skip
"""Types of Tool in the specification beside functions."""
_LABELS: Mapping[str, str] = {"custom": "name", "mcp": "server_label"}
"""The field by which a choice names a tool, where its type does not tell which one is meant."""
_VERSION = re.compile(r"_(use|preview|\d{4}_\d{2}_\d{2})")
"""What a choice may leave out of a type: `computer_use` is OpenAI's word for a tool `computer_use_preview`."""


def read_tools(data: Mapping[str, object]) -> tuple[ToolSpec, ...]:
    """Return the functions of a request. Raises BadRequest."""
    return tool_list(data, _tool, "name") if data.get("tools") else ()


def _tool(item: object, where: str) -> ToolSpec | None:
    data = required(item, dict, where)
    kind = required_text(data, "type", f"{where}.type")
    if kind in _VENDORS_TOOLS:
        return None
    if kind != "function":
        kinds = ", ".join(f"'{name}'" for name in sorted({"function", *_VENDORS_TOOLS}))
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: {kinds}.")
    return function_tool(data, name_field(data, f"{where}.name"), where)


def read_tool_choice(data: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str | None:
    """Return how the model is to call, as a Request has it. Raises BadRequest. `tools`: what `read_tools` returns."""
    choice = data.get("tool_choice")
    if choice == "auto" and not tools:
        return None  # clients send it without tools, and it asks for nothing
    vendors_tools = [tool for tool in data.get("tools") or () if tool["type"] in _VENDORS_TOOLS]
    if choice == "required" and vendors_tools and not tools:
        return "auto"
    if not isinstance(choice, dict):
        return tool_choice(data, tools, _chosen_name, None)
    if _is_own(choice):
        return _own_tool(choice, vendors_tools)
    if choice.get("type") == "allowed_tools" and isinstance(choice.get("tools"), list):
        return _allowed_tools(choice, vendors_tools, tools)
    return tool_choice(data, tools, _chosen_name, None)


def _allowed_tools(choice: Mapping[str, Any], vendors_tools: Sequence[Any], tools: tuple[ToolSpec, ...]) -> str | None:
    """Return the choice among the allowed functions; there is none if all that is allowed are OpenAI's own tools."""
    functions = [item for item in choice["tools"] if not _is_own(item)]
    for item in choice["tools"]:
        if _is_own(item):
            _own_tool(item, vendors_tools)
    if choice["tools"] and not functions and choice.get("mode") in ("auto", "required"):
        return "auto"
    return tool_choice({"tool_choice": {**choice, "tools": functions}}, tools, _chosen_name, None)


def _is_own(item: object) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and _family(kind) in _FAMILIES


def _own_tool(choice: Mapping[str, Any], vendors_tools: Sequence[Any]) -> str:
    """Return what becomes of the choice of a tool of OpenAI's own. Raises BadRequest if the request does not offer it."""
    kind = choice["type"]
    label = _LABELS.get(kind, "type")
    for tool in vendors_tools:
        if _family(tool["type"]) == _family(kind) and (label == "type" or tool.get(label) == choice.get(label)):
            return "auto"
    named = kind if label == "type" else str(choice.get(label))
    raise invalid_value("tool_choice", f"Tool choice '{named[:64]}' not found in 'tools' parameter.")


def _family(kind: str) -> str:
    return _VERSION.sub("", kind)


_FAMILIES = frozenset(map(_family, _VENDORS_TOOLS))


def _chosen_name(choice: Mapping[str, object], where: str) -> str:
    return name_field(choice, f"{where}.name")
