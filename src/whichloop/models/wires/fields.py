"""Bodies of requests and answers as JSON, and checked reading of a request's fields, with the errors in OpenAI's words.

`where`: the field's full path in the body; without it, its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.protocol.json_text import Json
from whichloop.protocol.wire import from_json

from .base import BadRequest as BadRequest
from .base import check_depth as check_depth

Value = TypeVar("Value")

MAX_NAME_CHARS = 64
"""Characters in the name of a tool or of a reply's format."""
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_DEPTH = 100
"""Levels of nesting in a request's body; OpenAI's own schemas end at ten."""


_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    type(None): "null",
}


def wrong_type(where: str, expected: str, value: object) -> BadRequest:
    """Return the refusal of a field whose value is of another type."""
    got = _TYPES.get(type(value), "a value of another type")
    return BadRequest(f"Invalid type for '{where}': expected {expected}, but got {got} instead.", where, "invalid_type")


def invalid_value(where: str, message: str) -> BadRequest:
    """Return the refusal of a field whose value is of the right type, and wrong."""
    return BadRequest(message, where, "invalid_value")


def required(value: Any, kind: type[Value], where: str) -> Value:
    """Return a value of the given type. Raises BadRequest if it is missing, null or of another type."""
    if value is None:
        raise BadRequest(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if not isinstance(value, kind):
        raise wrong_type(where, _TYPES[kind], value)
    return value


def optional(data: Mapping[str, object], name: str, kind: type[Value], where: str = "") -> Value | None:
    """Return a field of the given type, None if absent or null. Raises BadRequest for another type."""
    value = data.get(name)
    return None if value is None else required(value, kind, where or name)


def required_text(data: Mapping[str, object], name: str, where: str = "") -> str:
    """Return a text that is not empty."""
    where = where or name
    value = required(data.get(name), str, where)
    if not value:
        raise BadRequest(f"Invalid '{where}': empty string.", where, "empty_string")
    return value


def name_field(data: Mapping[str, object], where: str) -> str:
    """Return the field `name`, as OpenAI allows it: letters, digits, underscores and dashes."""
    name = bounded_text(data, "name", MAX_NAME_CHARS, where)
    if not _NAME.fullmatch(name):
        problem = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        raise invalid_value(where, f"Invalid '{where}': {problem}")
    return name


def bounded_text(data: Mapping[str, object], name: str, max_chars: int, where: str) -> str:
    """Return a text that is neither empty nor longer than `max_chars`."""
    text = required_text(data, name, where)
    if len(text) > max_chars:
        problem = f"Expected a string with maximum length {max_chars}, but got a string with length {len(text)} instead."
        raise BadRequest(f"Invalid '{where}': string too long. {problem}", where, "string_above_max_length")
    return text


def filled_list(data: Mapping[str, object], name: str, max_length: int, where: str = "") -> list[Any]:
    """Return a list that holds something, empty if absent or null."""
    items = optional_list(data, name, max_length, where)
    if not items and data.get(name) is not None:
        raise empty_array(where or name)
    return items


def empty_array(where: str) -> BadRequest:
    """Return the refusal of a list without items."""
    problem = "Expected an array with minimum length 1, but got an empty array instead."
    return BadRequest(f"Invalid '{where}': empty array. {problem}", where, "empty_array")


def optional_list(data: Mapping[str, object], name: str, max_length: int, where: str = "") -> list[Any]:
    """Return a list, empty if absent or null."""
    where = where or name
    value = optional(data, name, list, where) or []
    if len(value) > max_length:
        problem = f"Expected an array with maximum length {max_length}, but got an array with length {len(value)} instead."
        raise BadRequest(f"Invalid '{where}': array too long. {problem}", where, "array_above_max_length")
    return value


def optional_number(data: Mapping[str, object], name: str, low: float, high: float, *, whole: bool = False) -> Any:
    """Return a number in [low, high], None if absent or null."""
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise wrong_type(name, "an integer" if whole else "a decimal", value)
    if not low <= value <= high:
        bound = f">= {low:g}" if value < low else f"<= {high:g}"
        raise BadRequest(f"Invalid '{name}': expected a value {bound}.", name, "value_out_of_range")
    return value


_Further = ParamSpec("_Further")
_Read = TypeVar("_Read")
_Reader = Callable[Concatenate[Any, _Further], _Read]


def read_once(max_chars: int) -> Callable[[_Reader[_Further, _Read]], _Reader[_Further, _Read]]:
    """Return a decorator for what reads a part of a request that a conversation sends with each one, such as its tools.

    What it gave for a value of at most `max_chars` characters of JSON it gives again for an equal one: to check schemas takes long.
    Its further arguments must be hashable, and what it gives immutable.
    """

    def decorated(reader: _Reader[_Further, _Read]) -> _Reader[_Further, _Read]:
        @lru_cache(maxsize=64)
        def cached(text: str, *further: _Further.args, **named: _Further.kwargs) -> _Read:
            return reader(json.loads(text), *further, **named)

        @wraps(reader)
        def reading(value: Any, /, *further: _Further.args, **named: _Further.kwargs) -> _Read:
            text = json.dumps(value)
            if len(text) > max_chars:
                return reader(value, *further, **named)
            return cached(text, *further, **named)  # type: ignore[arg-type]  # all of them hash, as the docstring asks

        return reading

    return decorated


Context = tuple[str, ...]
"""Where a schema stands in the whole one, as OpenAI's messages show it."""

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def function_problem(schema: Mapping[str, object], *, strict: bool) -> str | None:
    """Return what is wrong with the schema of a tool's parameters; None if nothing is. `strict`: structured outputs."""
    problem = _root_problem(schema)
    if problem is None and "properties" not in schema:
        problem = _in_context((), "object schema missing properties")
    return problem or _inner_problem(schema, strict=strict)


def reply_problem(schema: Mapping[str, object]) -> str | None:
    """Return what is wrong with the schema of a reply under structured outputs; None if nothing is."""
    return _root_problem(schema) or _inner_problem(schema, strict=True)


def _root_problem(schema: Mapping[str, object]) -> str | None:
    kind = schema.get("type")
    return None if kind == "object" else f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'"


def _inner_problem(schema: Mapping[str, object], *, strict: bool) -> str | None:
    for context, inner in inner_schemas(schema):
        if (problem := _array_problem(context, inner)) or (strict and (problem := _strict_problem(context, inner))):
            return problem
    return None


def inner_schemas(root: Mapping[str, object]) -> Iterator[tuple[Context, Mapping[str, Json]]]:
    """Yield all schemas in one, outer ones first; the depth of a body is bounded (see `check_depth`)."""
    waiting: list[tuple[Context, object]] = [((), root)]
    while waiting:
        context, schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        yield context, schema
        inner: list[tuple[Context, object]] = []
        for key in _MAPS:
            if isinstance(schema.get(key), Mapping):
                inner += [((*context, key, str(name)), value) for name, value in schema[key].items()]
        for key in _LISTS:
            if isinstance(schema.get(key), list):
                inner += [((*context, key, str(place)), value) for place, value in enumerate(schema[key])]
        inner += [((*context, key), schema[key]) for key in ("items", "additionalProperties") if key in schema]
        waiting += reversed(inner)


def _array_problem(context: Context, schema: Mapping[str, object]) -> str | None:
    kinds = schema.get("type")
    if "items" in schema:
        return None
    if kinds == "array":
        return _in_context(context, "array schema missing items")
    if isinstance(kinds, list) and "array" in kinds:
        return _in_context((*context, "type", str(kinds.index("array"))), "array schema missing items")
    return None


def _strict_problem(context: Context, schema: Mapping[str, object]) -> str | None:
    if schema.get("type") != "object":
        return None
    if schema.get("additionalProperties") is not False:
        return _in_context(context, "'additionalProperties' is required to be supplied and to be false")
    required, properties = schema.get("required"), schema.get("properties")
    named_properties = properties if isinstance(properties, Mapping) else {}
    missing = [name for name in named_properties if not isinstance(required, list) or name not in required]
    if missing:
        problem = "'required' is required to be supplied and to be an array including every key in properties."
        return _in_context(context, f"{problem} Missing '{missing[0]}'")
    return None


def _in_context(context: Context, problem: str) -> str:
    return f"In context={context!r}, {problem}"


MAX_BODY_BYTES = 32 * 1024 * 1024


async def read_json(request: BaseRequest) -> object:
    """Read a request's body. Raises BadRequest for what is not JSON, and HTTPRequestEntityTooLarge."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer has been sent
    try:
        return from_json((await request.read()).decode("utf-8"))
    except ValueError:  # UnicodeDecodeError too
        raise BadRequest("We could not parse the JSON body of your request.") from None


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response whose body is JSON."""
    return web.Response(body=json_bytes(data), status=status, headers=headers, content_type="application/json")


def json_bytes(data: object) -> bytes:
    """Return compact JSON in ASCII."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode()
