"""The tools of a Messages request: read into ours, and refused as Anthropic refuses them (sources: docs/serve.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from whichloop.protocol import ToolSpec

from .anthropic_fields import checked, one_of, only_known, optional, refused, required, wrong_tag
from .fields import BadRequest, inner_schemas, read_once

MAX_NAME_CHARS = 128
MAX_REMEMBERED_CHARS = 1 << 18
"""Longest list of tools, as JSON, that is read once for all requests that send it: that of a coding agent is about 100,000 long."""
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FIELDS = frozenset(
    {
        "allowed_callers", "cache_control", "defer_loading", "description", "eager_input_streaming", "input_examples",
        "input_schema", "name", "strict", "type",
    }
)  # fmt: skip
_VENDORS_OWN = re.compile(
    r"(advisor|bash|browser_toolset|code_execution|computer|memory|str_replace_editor|text_editor|web_fetch|web_search)_\d{8}"
    r"|tool_search_tool_(bm25|regex)(_\d{8})?|mcp_toolset"
)
"""Types of tools that the vendor itself runs or describes. The model here never calls them."""
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_INVALID = "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."


class ToolChoice(NamedTuple):
    """How the model is to call."""

    choice: str | None
    """As a Request has it."""
    parallel: bool = True


def read_tools(body: Mapping[str, object]) -> tuple[ToolSpec, ...]:
    """Read the field `tools`, without the vendor's own. Raises BadRequest."""
    return _read_tools(optional(body, "tools", list) or [])


@read_once(MAX_REMEMBERED_CHARS)
def _read_tools(items: list[Any]) -> tuple[ToolSpec, ...]:
    names: set[str] = set()
    tools: list[ToolSpec] = []
    for place, item in enumerate(items):
        data = checked(item, dict, f"tools.{place}")
        kind = optional(data, "type", str, f"tools.{place}.type") or "custom"
        if kind == "custom":
            tools.append(_tool(data, f"tools.{place}.custom"))
        elif not _VENDORS_OWN.fullmatch(kind):
            raise wrong_tag(kind, ("custom",), f"tools.{place}")
        name = data.get("name")
        if isinstance(name, str) and name in names:
            raise refused("tools", "Tool names must be unique.")
        names.add(str(name))
    return tuple(tools)


def _tool(data: Mapping[str, object], where: str) -> ToolSpec:
    only_known(data, _FIELDS, where)
    name = required(data, "name", str, f"{where}.name")
    if len(name) > MAX_NAME_CHARS:
        raise refused(f"{where}.name", f"String should have at most {MAX_NAME_CHARS} characters")
    if not _NAME.fullmatch(name):
        raise refused(f"{where}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
    schema = required(data, "input_schema", dict, f"{where}.input_schema")
    _check_schema(schema, f"{where}.input_schema")
    if optional(data, "strict", bool, f"{where}.strict"):
        check_closed(schema, where)
    return ToolSpec(name, optional(data, "description", str, f"{where}.description") or "", schema)


def _check_schema(schema: Mapping[str, object], where: str) -> None:
    """Check the schema of a tool's input. Raises BadRequest."""
    if required(schema, "type", str, f"{where}.type") != "object":
        raise refused(f"{where}.type", "Input should be 'object'")
    if any(name in schema for name in ("oneOf", "allOf", "anyOf")):
        raise refused(where, "input_schema does not support oneOf, allOf, or anyOf at the top level")
    properties = optional(schema, "properties", dict, f"{where}.properties") or {}
    if not all(map(_KEY.fullmatch, properties)):
        raise refused(f"{where}.properties", "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'")
    if not _is_schema(schema):
        raise refused(where, _INVALID)


def check_closed(schema: Mapping[str, object], where: str) -> None:
    """Check that no object in a schema that replies must follow takes further properties. Raises BadRequest."""
    for _, inner in inner_schemas(schema):
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            raise refused(where, "For 'object' type, 'additionalProperties' must be explicitly set to false")


def _is_schema(schema: object) -> bool:
    """Whether a value and all in its properties and items look like schemas: the depth of a body is bounded (see `check_depth`)."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type", "object")
    needed = schema.get("required", [])
    properties = schema.get("properties") or {}
    if not all(isinstance(kind, str) and kind in _TYPES for kind in (kinds if isinstance(kinds, list) else [kinds])):
        return False
    if not isinstance(needed, list | None) or not all(isinstance(name, str) for name in needed or []):
        return False
    if not isinstance(properties, dict) or not all(map(_is_schema, properties.values())):
        return False
    return "items" not in schema or _is_schema(schema["items"])


def read_tool_choice(body: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> ToolChoice:
    """Read the field `tool_choice`. Raises BadRequest.

    The model never calls the vendor's own tools: where a request forces one, or has no other, it answers as if nothing were forced.
    """
    choice = optional(body, "tool_choice", dict)
    if choice is None:
        return ToolChoice(None)
    kind = required(choice, "type", str, "tool_choice.type")
    if kind not in ("auto", "any", "tool", "none"):
        raise wrong_tag(kind, ("auto", "any", "none", "tool"), "tool_choice")
    fields = ["type"] if kind == "none" else ["type", "disable_parallel_tool_use"]
    only_known(choice, [*fields, "name"] if kind == "tool" else fields, f"tool_choice.{kind}")
    if not body.get("tools"):
        raise refused(f"tool_choice.{kind}", "may only be specified while providing tools")
    parallel = not optional(choice, "disable_parallel_tool_use", bool, f"tool_choice.{kind}.disable_parallel_tool_use")
    if kind == "any":
        return ToolChoice("required" if tools else "auto", parallel)
    if kind != "tool":
        return ToolChoice(kind, parallel)
    name = required(choice, "name", str, "tool_choice.tool.name")
    if any(tool.name == name for tool in tools):
        return ToolChoice(name, parallel)
    if any(_offers(item, name) for item in body["tools"]):
        return ToolChoice("auto", parallel)
    raise refused("tool_choice", f"Tool '{name[:MAX_NAME_CHARS]}' not found in provided tools")


def _offers(item: Mapping[str, Any], name: str) -> bool:
    """Whether an item of `tools` is a tool of the vendor's own with this name, or a set of tools, whose names it does not tell."""
    kind = item.get("type") or "custom"
    return kind != "custom" and (item.get("name") == name or "toolset" in kind)


def check_thinking(body: Mapping[str, object]) -> None:
    """Check the field `thinking`, which the model here has no use of. Raises BadRequest."""
    thinking = optional(body, "thinking", dict)
    if thinking is None:
        return
    kind = one_of(
        required(thinking, "type", str, "thinking.type"), ("adaptive", "between_tools", "disabled", "enabled"), "thinking"
    )
    if kind != "enabled":
        return
    budget = required(thinking, "budget_tokens", int, "thinking.enabled.budget_tokens")
    if budget < 1024:
        raise refused("thinking.enabled.budget_tokens", "Input should be greater than or equal to 1024")
    longest = body.get("max_tokens")
    if isinstance(longest, int) and longest <= budget:
        raise BadRequest("`max_tokens` must be greater than `thinking.budget_tokens`.", "max_tokens")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        raise BadRequest("Thinking may not be enabled when tool_choice forces tool use.", "tool_choice")
