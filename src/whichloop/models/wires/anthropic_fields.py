"""Checked reading of the fields and tools of a Messages request (sources: docs/serve.md), with the errors in Anthropic's words,
which are mostly pydantic's.

`where`: the field's full path in the body, such as `tools.0.custom.name`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from whichloop.protocol import ToolSpec
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.tokens import CHARS_PER_TOKEN

from .contract import CacheMark
from .fields import BadRequest, inner_schemas, read_once

Value = TypeVar("Value")

_KINDS: Mapping[type, str] = {
    dict: "a valid dictionary",
    list: "a valid list",
    str: "a valid string",
    bool: "a valid boolean",
    int: "a valid integer",
    float: "a valid number",
}
MAX_SHOWN_CHARS = 64
"""Longest part of a client's text that an error repeats, in characters."""


def refused(where: str, reason: str) -> BadRequest:
    """Return the refusal of one field."""
    return BadRequest(f"{where}: {reason}", where)


def checked(value: object, kind: type[Value], where: str) -> Value:
    """Return a value of the given type. Raises BadRequest for another type; a boolean is not a number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise refused(where, f"Input should be {_KINDS[kind]}")
    return value


def required(data: Mapping[str, Any], name: str, kind: type[Value], where: str = "") -> Value:
    """Return a field that must be there. Raises BadRequest."""
    if name not in data:
        raise refused(where or name, "Field required")
    return checked(data[name], kind, where or name)


def optional(data: Mapping[str, object], name: str, kind: type[Value], where: str = "") -> Value | None:
    """Return a field, None if absent or null. Raises BadRequest for another type."""
    value = data.get(name)
    return None if value is None else checked(value, kind, where or name)


def number(data: Mapping[str, Any], name: str, low: float, high: float, *, whole: bool = False) -> Any:
    """Return a number in [low, high], None if absent or null. Raises BadRequest."""
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise refused(name, f"Input should be {_KINDS[int if whole else float]}")
    if value < low:
        raise refused(name, f"Input should be greater than or equal to {low:g}")
    if value > high:
        raise refused(name, f"Input should be less than or equal to {high:g}")
    return value


def only_known(data: Mapping[str, object], fields: Collection[str], where: str = "") -> None:
    """Check that an object has no field that the API lacks. Raises BadRequest."""
    unknown = next((name for name in data if name not in fields), None)
    if unknown is not None:
        short_name = unknown[:MAX_SHOWN_CHARS]
        raise refused(f"{where}.{short_name}" if where else short_name, "Extra inputs are not permitted")


def one_of(value: object, options: Collection[str], where: str) -> str:
    """Return a text that is one of some. Raises BadRequest."""
    if not isinstance(value, str) or value not in options:
        *first, last = (f"'{option}'" for option in options)
        raise refused(where, f"Input should be {', '.join(first)} or {last}" if first else f"Input should be {last}")
    return value


def wrong_tag(tag: str, options: Collection[str], where: str) -> BadRequest:
    """Return the refusal of an object whose `type` is none that may stand there."""
    tags = ", ".join(f"'{option}'" for option in sorted(options))
    return refused(where, f"Input tag '{tag[:MAX_SHOWN_CHARS]}' found using 'type' does not match any of the expected tags: {tags}")


LOOKBACK = 20
"""Blocks before a mark where what was kept earlier is looked for."""
MAX_MARKS = 4
DEFAULT_TTL = "5m"


class CachePlan(NamedTuple):
    """What a request asks of the cache."""

    marks: tuple[CacheMark, ...] = ()
    ttl: str = DEFAULT_TTL
    """How long the beginnings are to be kept, `5m` or `1h`; the longest that the request names."""


class _Piece(NamedTuple):
    """A block of a request."""

    where: str
    kind: str
    """What is before its content: the role of its message, or `tools` or `system`."""
    content: Mapping[str, Any]
    """The block without its mark."""
    control: Any
    """Its mark, None if absent."""


def cache_plan(body: Mapping[str, object], max_tokens: int) -> CachePlan:
    """Return what a request, whose other fields are checked, asks of the cache. Raises BadRequest.

    `max_tokens`: tokens of the whole request; no beginning has more.
    """
    pieces = list(_pieces(body))
    controls = [(number, piece.where, piece.control) for number, piece in enumerate(pieces) if piece.control is not None]
    if (whole := optional(body, "cache_control", dict)) is not None and pieces:
        controls.append((len(pieces) - 1, "", whole))
    if not controls:
        return CachePlan()
    if len(controls) > MAX_MARKS:
        raise BadRequest(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(controls)}.")
    ttls = [_ttl(control, f"{where}.cache_control" if where else "cache_control") for _, where, control in controls]
    marked = {number for number, _, _ in controls}
    looked_for = {place for number in marked for place in range(max(0, number - LOOKBACK), number)}
    return CachePlan(tuple(_marks(body, pieces, marked, looked_for, max_tokens)), max(ttls, key=lambda ttl: ttl == "1h"))


def _ttl(control: object, where: str) -> str:
    data = checked(control, dict, where)
    one_of(data.get("type"), ("ephemeral",), f"{where}.type")
    only_known(data, ("type", "ttl", "scope"), f"{where}.ephemeral")
    return one_of(data.get("ttl") or DEFAULT_TTL, ("5m", "1h"), f"{where}.ephemeral.ttl")


def _marks(
    body: Mapping[str, object], pieces: list[_Piece], marked: set[int], looked_for: set[int], max_tokens: int
) -> Iterator[CacheMark]:
    """Yield the beginnings that end at the wanted pieces, the shortest first."""
    whole = hashlib.sha256(str(body.get("model")).encode("utf-8", "replace"))
    chars = 0
    for number, piece in enumerate(pieces):
        text = canonical_json([piece.kind, piece.content])
        whole.update(text.encode("utf-8", "replace"))
        chars += _chars(piece.content)
        if number in marked or number in looked_for:
            yield CacheMark(whole.hexdigest(), min(chars // CHARS_PER_TOKEN, max_tokens), number in marked)


def _pieces(body: Mapping[str, Any]) -> Iterator[_Piece]:
    """Yield all blocks of a request, in the order in which they are cached."""
    for place, tool in enumerate(body.get("tools") or []):
        yield _piece(f"tools.{place}.custom", "tools", tool)
    for where, kind, content in _contents(body):
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for index, block in enumerate(blocks):
            yield _piece(f"{where}.{index}", kind, block)


def _contents(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    if body.get("system"):
        yield "system", "system", body["system"]
    for place, message in enumerate(body["messages"]):
        yield f"messages.{place}.content", message["role"], message["content"]


def _piece(where: str, kind: str, block: Mapping[str, object]) -> _Piece:
    rest = {name: value for name, value in block.items() if name != "cache_control"}
    inner = rest.get("content")
    if isinstance(inner, list):  # the blocks of a result may be marked too
        marks = [part["cache_control"] for part in inner if isinstance(part, dict) and part.get("cache_control") is not None]
        rest["content"] = [
            {name: part[name] for name in part if name != "cache_control"} for part in inner if isinstance(part, dict)
        ]
        return _Piece(where, kind, rest, block.get("cache_control", marks[-1] if marks else None))
    return _Piece(where, kind, rest, block.get("cache_control"))


def _chars(content: Mapping[str, Any]) -> int:
    """Return how many characters a block shows to the model."""
    chars = sum(len(content[name]) for name in ("name", "text", "description") if isinstance(content.get(name), str))
    chars += sum(len(canonical_json(content[name])) for name in ("input", "input_schema") if name in content)
    inner = content.get("content")
    if isinstance(inner, str):
        return chars + len(inner)
    parts = inner if isinstance(inner, list) else ()
    return chars + sum(_chars(part) for part in parts if isinstance(part, dict))


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
