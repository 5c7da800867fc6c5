"""Checked reading of the fields and tools of a Gemini request (sources: docs/serve.md), as Google reads JSON into protocol buffers,
with its errors in its words.

A field may have its name in camel or in snake case, null stands for an absent one, and one item for a list of one (see
protobuf.dev/programming-guides/json). `where`: the path of a message in the body in snake case, empty for the body itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from whichloop.protocol import ToolSpec
from whichloop.protocol.json_text import Json

from .fields import BadRequest, read_once

Value = TypeVar("Value")

MAX_ITEMS = 10_000
"""Items of a list."""
MAX_SHOWN = 64
"""Longest name or value that a message repeats, in characters."""
FIELD_VIOLATION = "field_violation"
"""Code of an error that Google explains by `fieldViolations` too."""
_PACKAGE = "type.googleapis.com/google.ai.generativelanguage.v1beta"


class MessageType(NamedTuple):
    """A message of the API."""

    name: str
    fields: frozenset[str]
    """In camel case."""


def message_type(name: str, fields: str) -> MessageType:
    """Return a message type. `fields`: their names in camel case, with spaces between them."""
    return MessageType(name, frozenset(fields.split()))


def snake_case(name: str) -> str:
    """Return a name such as `maxOutputTokens` as `max_output_tokens`."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def inside(where: str, name: str) -> str:
    """Return the path of a field of the message at `where`."""
    return f"{where}.{snake_case(name)}" if where else snake_case(name)


# --- errors ---


def broken_rule(where: str, reason: str) -> BadRequest:
    """Return the error for a request that can be read, but breaks a rule at a place."""
    return BadRequest(f"* GenerateContentRequest.{where}: {reason}\n", where)


def invalid_value(where: str, kind: str, value: Any) -> BadRequest:
    """Return the error for a value of another type. `kind`: such as TYPE_STRING, or the name of a message or enumeration."""
    encoded = json.dumps(value)
    shortened = encoded if len(encoded) <= MAX_SHOWN else f"{encoded[:MAX_SHOWN]}…"
    expected = kind if kind.startswith("TYPE_") else f"{_PACKAGE}.{kind}"
    return BadRequest(f"Invalid value at '{where}' ({expected}), {shortened}", where, FIELD_VIOLATION)


def _unreadable(name: str, where: str, reason: str) -> BadRequest:
    place = f" at '{where}'" if where else ""
    message = f'Invalid JSON payload received. Unknown name "{name[:MAX_SHOWN]}"{place}: {reason}'
    return BadRequest(message, where or None, FIELD_VIOLATION)


def _no_list(where: str) -> BadRequest:
    outer, _, name = where.rpartition(".")
    return _unreadable(name, outer, "Proto field is not repeating, cannot start list.")


# --- reading ---


def message(value: Any, where: str, kind: MessageType) -> dict[str, Any]:
    """Return the fields of a message that are set, by their names in camel case. Raises BadRequest."""
    if isinstance(value, list) and where:
        raise _no_list(where)
    if not isinstance(value, dict) and not where:
        raise BadRequest("Invalid JSON payload received. Root element must be a message.")
    if not isinstance(value, dict):
        raise invalid_value(where, kind.name, value)
    fields: dict[str, Any] = {}
    for name, inner in value.items():
        first, *rest = name.split("_")
        camel_name = first + "".join(part[:1].upper() + part[1:] for part in rest)
        if camel_name not in kind.fields:
            raise _unreadable(name, where, "Cannot find field.")
        if inner is not None:
            fields[camel_name] = inner
    return fields


def inner_message(data: Mapping[str, object], name: str, where: str, kind: MessageType) -> dict[str, Json] | None:
    """Return the message in a field, None if it is not set."""
    return message(data[name], inside(where, name), kind) if name in data else None


def items(data: Mapping[str, Any], name: str, where: str) -> list[tuple[Any, str]]:
    """Return the items of a list, each with its path; none if the field is not set."""
    value = data.get(name, [])
    listed = value if isinstance(value, list) else [value]
    place = inside(where, name)
    if len(listed) > MAX_ITEMS:
        raise broken_rule(place, f"at most {MAX_ITEMS} items can be specified.")
    return [(item, f"{place}[{number}]") for number, item in enumerate(listed)]


def texts(data: Mapping[str, object], name: str, where: str) -> tuple[str, ...]:
    """Return the items of a list of texts."""
    return tuple(_typed(item, str, place, "TYPE_STRING") for item, place in items(data, name, where))


def text(data: Mapping[str, Any], name: str, where: str) -> str:
    """Return a text, empty if the field is not set."""
    return _typed(data.get(name, ""), str, inside(where, name), "TYPE_STRING")


def flag(data: Mapping[str, object], name: str, where: str) -> bool:
    """Return a truth value, False if the field is not set."""
    return _typed(data.get(name, False), bool, inside(where, name), "TYPE_BOOL")


def struct(data: Mapping[str, object], name: str, where: str) -> dict[str, Json]:
    """Return an object with fields of any name, empty if the field is not set."""
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise invalid_value(inside(where, name), "Struct", value)
    return value


def one_of(data: Mapping[str, object], name: str, where: str, kind: str, names: Collection[str]) -> str | None:
    """Return a name of an enumeration in capitals, however it is written; None if the field is not set."""
    value = data.get(name)
    if value is None:
        return None
    place = inside(where, name)
    if isinstance(value, list):
        raise _no_list(place)
    capitals = value.upper() if isinstance(value, str) else ""
    if capitals not in names:
        raise invalid_value(place, kind, value)
    return capitals


class NumberRange(NamedTuple):
    """The numbers that a field takes."""

    low: float
    high: float
    whole: bool = False


def number(data: Mapping[str, Any], name: str, where: str, bounds: NumberRange) -> Any:
    """Return a number, None if the field is not set; 5.0 is the whole number 5."""
    value = data.get(name)
    if value is None:
        return None
    kind, place = "TYPE_INT32" if bounds.whole else "TYPE_FLOAT", inside(where, name)
    if bounds.whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int if bounds.whole else int | float):
        raise invalid_value(place, kind, value)
    if not bounds.low <= value <= bounds.high:
        problem = f"{snake_case(name)} must be in the range [{bounds.low:g}, {bounds.high:g}]."
        raise broken_rule(place, problem)
    return value


def _typed(value: object, kind: type[Value], where: str, type_name: str) -> Value:
    if isinstance(value, list):
        raise _no_list(where)
    if not isinstance(value, kind):
        raise invalid_value(where, type_name, value)
    return value


SCHEMA = message_type(
    "Schema",
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties minLength"
    " maxLength pattern example anyOf propertyOrdering default items minimum maximum",
)
_TYPES = frozenset({"TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_WORDS = ("format", "title", "description", "pattern")
_COUNTS = ("maxItems", "minItems", "minProperties", "maxProperties", "minLength", "maxLength")
_BOUNDS = ("minimum", "maximum")


class _Place(NamedTuple):
    """Where a schema is: as Google names places when it reads a body, and as it does when a rule is broken."""

    in_body: str
    in_rules: str

    def field(self, name: str) -> _Place:
        return _Place(inside(self.in_body, name), inside(self.in_rules, name))


def parameters_schema(value: object, where: str) -> dict[str, Json]:
    """Return the schema of a function's parameters as JSON Schema. Raises BadRequest."""
    return _schema(value, _Place(where, where), may_be_empty=True)


def reply_schema(value: object, where: str) -> dict[str, Json]:
    """Return the schema of a reply as JSON Schema. Raises BadRequest."""
    return _schema(value, _Place(where, where), may_be_empty=False)


def _schema(value: object, place: _Place, *, may_be_empty: bool) -> dict[str, Json]:
    """Return a schema of Gemini's as JSON schema; `may_be_empty`: whether an object may be without properties."""
    data = message(value, place.in_body, SCHEMA)
    kind = one_of(data, "type", place.in_body, "Type", _TYPES)
    type_name = "" if kind in (None, "TYPE_UNSPECIFIED") else str(kind)
    properties = {}
    for number, (name, inner) in enumerate(struct(data, "properties", place.in_body).items()):
        below = _Place(f"{place.in_body}.properties[{number}].value", f"{place.in_rules}.properties[{name}]")
        properties[name] = _schema(inner, below, may_be_empty=may_be_empty)
    schema: dict[str, Any] = {name: text(data, name, place.in_body) for name in _WORDS if name in data}
    schema |= _numbers(data, place)
    if "default" in data:
        schema["default"] = data["default"]
    if type_name:
        schema["type"] = [type_name.lower(), "null"] if data.get("nullable") is True else type_name.lower()
    if options := texts(data, "enum", place.in_body):
        schema["enum"] = list(options)
    if "items" in data:
        schema["items"] = _schema(data["items"], place.field("items"), may_be_empty=may_be_empty)
    if choices := items(data, "anyOf", place.in_body):
        schema["anyOf"] = [
            _schema(item, _Place(in_body, f"{place.in_rules}.any_of[{number}]"), may_be_empty=may_be_empty)
            for number, (item, in_body) in enumerate(choices)
        ]
    if type_name == "OBJECT":
        schema["properties"] = properties
    if required := texts(data, "required", place.in_body):
        schema["required"] = list(required)
    _check(data, type_name, place, properties)
    if type_name == "OBJECT" and not properties and not may_be_empty:
        raise broken_rule(f"{place.in_rules}.properties", "should be non-empty for OBJECT type")
    return schema


def _numbers(data: Mapping[str, object], place: _Place) -> dict[str, Json]:
    """Return the bounds in a schema; a whole number may be written as text, as protocol buffers write those of 64 bits."""
    numbers: dict[str, Any] = {}
    for name in (*_COUNTS, *_BOUNDS):
        value = data.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        is_number = isinstance(value, int if name in _COUNTS else int | float) and not isinstance(value, bool)
        if value is not None and not is_number:
            raise invalid_value(inside(place.in_body, name), "TYPE_INT64" if name in _COUNTS else "TYPE_DOUBLE", value)
        if value is not None:
            numbers[name] = value
    return numbers


def _check(data: Mapping[str, object], kind: str, place: _Place, properties: Mapping[str, object]) -> None:
    """Check what Google checks of one schema."""
    where = place.in_rules
    if not kind and "anyOf" not in data:
        raise broken_rule(f"{where}.type", "must be specified when not using one_of, any_of or all_of fields")
    if kind == "ARRAY" and "items" not in data:
        raise broken_rule(f"{where}.items", "missing field.")
    for name in ("properties", "required"):
        if kind not in ("OBJECT", "") and data.get(name):
            raise broken_rule(f"{where}.{name}", "only allowed for OBJECT type")
    if kind not in ("STRING", "") and data.get("enum"):
        raise broken_rule(f"{where}.enum", "only allowed for STRING type")
    for number, name in enumerate(texts(data, "required", place.in_body)):
        if name not in properties:
            raise broken_rule(f"{where}.required[{number}]", "property is not defined")


MAX_FUNCTIONS = 512
MAX_REMEMBERED_CHARS = 1 << 16
"""Longest list of tools, as JSON, that is read once for all requests that send it."""
TOOL = message_type(
    "Tool",
    "functionDeclarations googleSearchRetrieval codeExecution googleSearch urlContext googleMaps fileSearch computerUse mcpServers"
    " retrieval enterpriseWebSearch",
)
FUNCTION = message_type(
    "FunctionDeclaration", "name description behavior parameters parametersJsonSchema response responseJsonSchema"
)
TOOL_CONFIG = message_type("ToolConfig", "functionCallingConfig retrievalConfig includeServerSideToolInvocations")
CALLING = message_type("FunctionCallingConfig", "mode allowedFunctionNames streamFunctionCallArguments")

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_NAME_RULE = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots"
    " (.), colons (:), or dashes (-), with a maximum length of 64."
)
_MODES: Mapping[str, str] = {"MODE_UNSPECIFIED": "auto", "AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}


def read_tools(data: Mapping[str, object], where: str) -> tuple[ToolSpec, ...]:
    """Return the functions of a request; tools of Google's own are passed over. Raises BadRequest."""
    flags = inner_message(data, "toolConfig", where, TOOL_CONFIG) or {}
    may_mix = flag(flags, "includeServerSideToolInvocations", inside(where, "toolConfig"))
    return _read_tools(data.get("tools", []), where, may_mix)


@read_once(MAX_REMEMBERED_CHARS)
def _read_tools(tools: Any, where: str, may_mix: bool) -> tuple[ToolSpec, ...]:
    """Return the functions that a request offers; `may_mix`: whether tools of Google's own may stand beside functions."""
    functions: dict[str, ToolSpec] = {}
    own_tools = False
    for item, place in items({"tools": tools}, "tools", where):
        tool = message(item, place, TOOL)
        own_tools = own_tools or bool(tool.keys() - {"functionDeclarations"})
        for declared, inner in items(tool, "functionDeclarations", place):
            data = message(declared, inner, FUNCTION)
            name = text(data, "name", inner)
            if not _NAME.fullmatch(name):
                raise broken_rule(inside(inner, "name"), _NAME_RULE)
            if "parameters" in data and "parametersJsonSchema" in data:
                raise broken_rule(inside(inner, "parametersJsonSchema"), "cannot be set beside parameters.")
            if "parameters" in data:
                parameters = parameters_schema(data["parameters"], inside(inner, "parameters"))
            else:
                parameters = struct(data, "parametersJsonSchema", inner)
            spec = ToolSpec(name, text(data, "description", inner), parameters)
            if spec.name in functions:
                raise BadRequest(f"Duplicate function declaration found: {spec.name}", inside(inner, "name"))
            functions[spec.name] = spec
        if len(functions) > MAX_FUNCTIONS:
            problem = f"At most {MAX_FUNCTIONS} function declarations can be specified."
            raise broken_rule(inside(place, "functionDeclarations"), problem)
    if functions and own_tools and not may_mix:
        raise BadRequest("Tool use with function calling is unsupported", inside(where, "tools"))
    return tuple(functions.values())


def tool_choice(data: Mapping[str, Any], where: str, tools: tuple[ToolSpec, ...]) -> str | None:
    """Return how the model is to call, as a Request has it. Of several allowed functions any may be called, and others too."""
    outer, place = inner_message(data, "toolConfig", where, TOOL_CONFIG) or {}, inside(where, "toolConfig")
    config = inner_message(outer, "functionCallingConfig", place, CALLING)
    if config is None:
        return None
    place = inside(place, "functionCallingConfig")
    if not tools:
        raise BadRequest("Function calling config is set without function_declarations.", place)
    mode = one_of(config, "mode", place, "FunctionCallingConfig.Mode", _MODES) or "MODE_UNSPECIFIED"
    names = texts(config, "allowedFunctionNames", place)
    if names and mode not in ("ANY", "VALIDATED"):
        problem = "allowed_function_names should only be set when the function calling mode is ANY or VALIDATED."
        raise BadRequest(problem, inside(place, "allowedFunctionNames"))
    if not {tool.name for tool in tools}.issuperset(names):
        problem = "allowed_function_names should be a subset of the provided function_declarations"
        raise BadRequest(problem, inside(place, "allowedFunctionNames"))
    return names[0] if mode == "ANY" and len(names) == 1 else _MODES[mode]
