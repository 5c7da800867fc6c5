"""The tools of a Gemini request, and how the model is to call them; what the API refuses in them (sources: docs/serve.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from whichloop.protocol import ToolSpec
from whichloop.protocol.json_text import Json

from .fields import BadRequest, read_once
from .gemini_fields import (
    broken_rule,
    flag,
    inner_message,
    inside,
    invalid_value,
    items,
    message,
    message_type,
    one_of,
    struct,
    text,
    texts,
)

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
    properties = {
        name: _schema(inner, _property(place, name, number), may_be_empty=may_be_empty)
        for number, (name, inner) in enumerate(struct(data, "properties", place.in_body).items())
    }
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


def _property(place: _Place, name: str, number: int) -> _Place:
    return _Place(f"{place.in_body}.properties[{number}].value", f"{place.in_rules}.properties[{name}]")


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
            spec = _function(declared, inner)
            if spec.name in functions:
                raise BadRequest(f"Duplicate function declaration found: {spec.name}", inside(inner, "name"))
            functions[spec.name] = spec
        if len(functions) > MAX_FUNCTIONS:
            problem = f"At most {MAX_FUNCTIONS} function declarations can be specified."
            raise broken_rule(inside(place, "functionDeclarations"), problem)
    if functions and own_tools and not may_mix:
        raise BadRequest("Tool use with function calling is unsupported", inside(where, "tools"))
    return tuple(functions.values())


def _function(item: Any, where: str) -> ToolSpec:
    data = message(item, where, FUNCTION)
    name = text(data, "name", where)
    if not _NAME.fullmatch(name):
        raise broken_rule(inside(where, "name"), _NAME_RULE)
    if "parameters" in data and "parametersJsonSchema" in data:
        raise broken_rule(inside(where, "parametersJsonSchema"), "cannot be set beside parameters.")
    if "parameters" in data:
        parameters = parameters_schema(data["parameters"], inside(where, "parameters"))
    else:
        parameters = struct(data, "parametersJsonSchema", where)
    return ToolSpec(name, text(data, "description", where), parameters)


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
