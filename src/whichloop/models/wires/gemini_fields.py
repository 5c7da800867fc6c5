"""Checked reading of the fields of a Gemini request, as Google reads JSON into protocol buffers, with its errors in its words.

A field may have its name in camel or in snake case, null stands for an absent one, and one item for a list of one (see
protobuf.dev/programming-guides/json). `where`: the path of a message in the body in snake case, empty for the body itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from whichloop.protocol.json_text import Json

from .fields import BadRequest

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


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


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
        camel_name = _camel_case(name)
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
