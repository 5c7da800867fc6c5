"""The tools of a Gemini request, and how the model is to call them; what the API refuses in them (sources: docs/serve.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from whichloop.protocol import ToolSpec

from .fields import BadRequest, read_once
from .gemini_fields import (
    broken_rule,
    flag,
    inner_message,
    inside,
    items,
    message,
    message_type,
    one_of,
    struct,
    text,
    texts,
)
from .gemini_schemas import parameters_schema

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
