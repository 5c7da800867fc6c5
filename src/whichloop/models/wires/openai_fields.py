"""What OpenAI's two APIs share: fields of requests that both have, names, metadata, errors, headers and the list of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whichloop.protocol import Role, ToolSpec
from whichloop.protocol.json_text import Json
from whichloop.protocol.moves import Inexpressible
from whichloop.protocol.wire import from_json, to_json

from .contract import ErrorAnswer, Path, RateLimitState, Stamp, Wire, WireFailure
from .fields import (
    MAX_NAME_CHARS,
    BadRequest,
    check_depth,
    filled_list,
    function_problem,
    invalid_value,
    name_field,
    optional,
    optional_list,
    read_once,
    reply_problem,
    required,
    required_text,
    wrong_type,
)

MAX_MESSAGES = 10_000
MAX_TOOLS = 128
MAX_REMEMBERED_CHARS = 1 << 16
"""Longest list of tools, as JSON, that is read once for all requests that send it."""
MAX_METADATA, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512
"""Pairs, and characters of each key and value, as OpenAI has them."""
MAX_SHOWN_NAMES = 4

ReadTool = Callable[[Any, str], ToolSpec | None]
"""Reads an item of `tools` that stands at a place; None for a tool of the vendor's own, which the model here never calls."""


NameOf = Callable[[Mapping[str, Any], str], str]
"""Reads the name of a function out of an object that stands at a place."""


class OpenAIWire(Wire):
    """OpenAI's errors, headers and models."""

    def failure(self, failure: WireFailure, limits: RateLimitState | None = None) -> ErrorAnswer:
        headers = {} if limits is None else _limit_headers(limits)
        if failure.wait_s is not None:
            headers |= {"x-ratelimit-reset-requests": _duration(failure.wait_s), "Retry-After": f"{failure.wait_s:g}"}
        return ErrorAnswer(failure.status, failure_body(failure), headers)

    def limit_headers(self, limits: RateLimitState, stamp: Stamp) -> dict[str, str]:
        return _limit_headers(limits)

    def models(self, names: Sequence[str], created: int) -> Any:
        return {"object": "list", "data": [self.model(name, created) for name in names]}

    def model(self, name: str, created: int) -> Any:
        return {"id": name, "object": "model", "created": created, "owned_by": "whichloop"}


def named_model(path: Path) -> str | None:
    """Return the model that a path below `/v1/models` names."""
    return "/".join(path[2:]) if len(path) > 2 else None


def error_body(message: str, type: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:  # noqa: A002
    """Write an error in OpenAI's format."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def failure_body(failure: WireFailure) -> dict[str, Json]:
    """Write a failure in OpenAI's format."""
    return error_body(failure.message, _type_of(failure), failure.param, failure.code)


_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "requests"}


def _type_of(failure: WireFailure) -> str:
    return "server_error" if failure.status >= 500 else _TYPES.get(failure.status, "invalid_request_error")


def _limit_headers(limits: RateLimitState) -> dict[str, str]:
    """Return OpenAI's headers (platform.openai.com/docs/guides/rate-limits)."""
    return {
        "x-ratelimit-limit-requests": str(limits.max_requests),
        "x-ratelimit-limit-tokens": str(limits.max_tokens),
        "x-ratelimit-remaining-requests": str(limits.requests),
        "x-ratelimit-remaining-tokens": str(limits.tokens),
        "x-ratelimit-reset-requests": _duration(limits.requests_reset_s),
        "x-ratelimit-reset-tokens": _duration(limits.tokens_reset_s),
    }


def _duration(seconds: float) -> str:
    """Return a duration in Go's form, as OpenAI writes it: `6ms`, `1.5s`, `2m0s`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


# --- fields of a request ---


def json_object(body: Any) -> dict[str, Json]:
    """Return a request's body. Raises BadRequest if it is no object, or nested too deep."""
    if not isinstance(body, dict):
        raise BadRequest("We could not parse the JSON body of your request: expected a JSON object.")
    check_depth(body)
    return body


def request_object(body: object, fields: frozenset[str]) -> dict[str, Json]:
    """Return a request's body. Raises BadRequest as `json_object` does, and if it has a field that the API lacks."""
    data = json_object(body)
    unknown = sorted(data.keys() - fields)
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        names = ", ".join(name[:MAX_NAME_CHARS] for name in unknown[:MAX_SHOWN_NAMES])
        raise BadRequest(f"Unrecognized request argument{plural} supplied: {names}")
    return data


def normalized_arguments(arguments: str) -> str:
    """Write arguments of the history as the scripted model does, whatever a client has made of their white space and escapes."""
    try:
        value = from_json(arguments or "{}")
        if isinstance(value, dict) and value.keys() == {"_unparsed"} and isinstance(value["_unparsed"], str):
            return value["_unparsed"]
        return to_json(value) if isinstance(value, dict) else arguments
    except (ValueError, Inexpressible):
        return arguments


def check_type(data: Mapping[str, object], where: str) -> None:
    """Check that a tool, call or choice is a function's."""
    kind = required_text(data, "type", f"{where}.type")
    if kind != "function":
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: 'function'.")


def tool_list(body: Mapping[str, object], read_tool: ReadTool, name_path: str) -> tuple[ToolSpec, ...]:
    """Return the tools of a request. `name_path`: where the name stands in an item."""
    return _read_tools(filled_list(body, "tools", MAX_TOOLS), read_tool, name_path)


@read_once(MAX_REMEMBERED_CHARS)
def _read_tools(items: list[Any], read_tool: ReadTool, name_path: str) -> tuple[ToolSpec, ...]:
    tools: dict[str, ToolSpec] = {}
    for place, item in enumerate(items):
        tool = read_tool(item, f"tools[{place}]")
        if tool is None:
            continue
        if tool.name in tools:
            where = f"tools[{place}].{name_path}"
            raise invalid_value(where, f"Invalid '{where}': tool names must be unique, and '{tool.name}' is given twice.")
        tools[tool.name] = tool
    return tuple(tools.values())


def function_tool(function: Mapping[str, object], name: str, where: str) -> ToolSpec:
    """Return the tool that a function's description, parameters and `strict` make."""
    description = optional(function, "description", str, f"{where}.description") or ""
    strict = bool(optional(function, "strict", bool, f"{where}.strict"))
    parameters = optional(function, "parameters", dict, f"{where}.parameters")
    if parameters is not None and (problem := function_problem(parameters, strict=strict)):
        said = f"Invalid schema for function '{name}': {problem}."
        raise BadRequest(said, f"{where}.parameters", "invalid_function_parameters")
    return ToolSpec(name, description, parameters or {})


def parallel_calls(body: Mapping[str, object], tools: tuple[ToolSpec, ...]) -> bool:
    """Return whether a reply may call several tools. Raises BadRequest where that is said of a request without tools."""
    several = optional(body, "parallel_tool_calls", bool)
    if several is not None and not tools:
        problem = "'parallel_tool_calls' is only allowed when 'tools' are specified."
        raise BadRequest(f"Invalid value for 'parallel_tool_calls': {problem}", "parallel_tool_calls")
    return several is not False


def tool_choice(body: Mapping[str, Any], tools: tuple[ToolSpec, ...], name_of: NameOf, allowed: str | None) -> str | None:
    """Return how the model is to call, as a Request has it.

    `name_of`: reads the name out of a choice. `allowed`: the field of a choice that holds allowed tools; None: the choice itself.
    """
    choice = body.get("tool_choice")
    if choice is None or choice == "none":
        return choice
    if not tools:
        problem = "'tool_choice' is only allowed when 'tools' are specified."
        raise BadRequest(f"Invalid value for 'tool_choice': {problem}", "tool_choice")
    if choice in ("auto", "required"):
        return str(choice)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return _allowed_tools(choice, tools, name_of, allowed)
    if isinstance(choice, dict) and choice.get("type") == "function":
        return offered(name_of(choice, "tool_choice"), tools)
    if isinstance(choice, str | dict):
        problem = "Supported values are: 'none', 'auto', 'required', and an object that names a function."
        raise invalid_value("tool_choice", f"Invalid value for 'tool_choice'. {problem}")
    raise wrong_type("tool_choice", "a string or an object", choice)


def _allowed_tools(choice: Mapping[str, object], tools: tuple[ToolSpec, ...], name_of: NameOf, field: str | None) -> str:
    """Return the mode, or the one tool that must be called. That other tools may not be called is not enforced."""
    where = "tool_choice" if field is None else f"tool_choice.{field}"
    data = choice if field is None else required(choice.get(field), dict, where)
    mode = required_text(data, "mode", f"{where}.mode")
    if mode not in ("auto", "required"):
        raise invalid_value(f"{where}.mode", f"Invalid value for '{where}.mode'.")
    names = []
    for place, item in enumerate(optional_list(data, "tools", MAX_TOOLS, f"{where}.tools")):
        inner = f"{where}.tools[{place}]"
        names.append(offered(name_of(required(item, dict, inner), inner), tools))
    return names[0] if mode == "required" and len(names) == 1 else mode


def offered(name: str, tools: tuple[ToolSpec, ...]) -> str:
    """Return the name of a tool that a request chooses and offers."""
    if all(tool.name != name for tool in tools):
        raise invalid_value("tool_choice", f"Tool choice '{name[:64]}' not found in 'tools' parameter.")
    return name


def reply_schema(data: Mapping[str, object], where: str, param: str, code: str | None = None) -> Mapping[str, Json]:
    """Return the schema of a reply.

    `where`: the path of its name, schema and `strict`. `param`, `code`: what a bad schema is blamed on, and as what.
    """
    name = name_field(data, f"{where}.name")
    schema = optional(data, "schema", dict, f"{where}.schema")
    if optional(data, "strict", bool, f"{where}.strict") and schema is not None and (problem := reply_problem(schema)):
        raise BadRequest(f"Invalid schema for response_format '{name}': {problem}.", param, code)
    return schema or {}


# --- metadata ---


def read_metadata(body: Mapping[str, object]) -> dict[str, str]:
    """Return the field `metadata`."""
    metadata = optional(body, "metadata", dict) or {}
    if len(metadata) > MAX_METADATA:
        problem = f"Expected an object with at most {MAX_METADATA} properties."
        raise BadRequest(f"Invalid 'metadata': too many properties. {problem}", "metadata", "object_above_max_properties")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise wrong_type(f"metadata.{key[:MAX_KEY_CHARS]}", "a string", value)
        if len(key) > MAX_KEY_CHARS or len(value) > MAX_VALUE_CHARS:
            problem = f"keys have at most {MAX_KEY_CHARS} characters, values {MAX_VALUE_CHARS}"
            raise BadRequest(f"Invalid 'metadata': {problem}.", "metadata", "string_above_max_length")
    return metadata


def role_in(metadata: Mapping[str, str]) -> Role:
    """Return the role of a request that a loop's own client sends."""
    try:
        return Role(metadata.get("role", Role.DECIDE))
    except ValueError:
        role_names = ", ".join(f"'{role}'" for role in Role)
        problem = f"Invalid value: '{metadata['role'][:64]}'. Supported values are: {role_names}."
        raise invalid_value("metadata.role", problem) from None


def examples_in(metadata: Mapping[str, str], max_count: int) -> int:
    """Return how many of the messages are demonstrations."""
    text = metadata.get("examples", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_MESSAGES)) or int(text) > max_count:
        problem = f"Invalid value: '{text[:64]}'. Expected how many of the messages are examples, a number up to {max_count}."
        raise invalid_value("metadata.examples", problem)
    return int(text)
