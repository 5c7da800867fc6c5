"""Checked reading of the fields of a request's JSON body, with the errors in OpenAI's words.

`where`: the field's full path in the body; without it, its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")

MAX_DEPTH = 100
"""Levels of nesting in a request's body; OpenAI's own schemas end at ten."""


class BadRequest(Exception):
    """A request that OpenAI's API would refuse with status 400."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def check_depth(body: Any) -> None:
    """Raise BadRequest for a body that is nested too deep."""
    level, depth = [body], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BadRequest(f"Invalid body: nested deeper than {MAX_DEPTH} levels.")
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]


_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    type(None): "null",
}


def wrong_type(where: str, expected: str, value: Any) -> BadRequest:
    got = _TYPES.get(type(value), "a value of another type")
    return BadRequest(f"Invalid type for '{where}': expected {expected}, but got {got} instead.", where, "invalid_type")


def invalid_value(where: str, message: str) -> BadRequest:
    return BadRequest(message, where, "invalid_value")


def required(value: Any, kind: type[Value], where: str) -> Value:
    """Return a value of the given type. Raises BadRequest if it is missing, null or of another type."""
    if value is None:
        raise BadRequest(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if not isinstance(value, kind):
        raise wrong_type(where, _TYPES[kind], value)
    return value


def optional(data: Mapping[str, Any], name: str, kind: type[Value], where: str = "") -> Value | None:
    """Return a field of the given type, None if absent or null. Raises BadRequest for another type."""
    value = data.get(name)
    return None if value is None else required(value, kind, where or name)


def required_text(data: Mapping[str, Any], name: str, where: str = "") -> str:
    """Return a text that is not empty."""
    where = where or name
    value = required(data.get(name), str, where)
    if not value:
        raise BadRequest(f"Invalid '{where}': empty string.", where, "empty_string")
    return value


def optional_list(data: Mapping[str, Any], name: str, max_length: int, where: str = "") -> list[Any]:
    """Return a list, empty if absent or null."""
    where = where or name
    value = optional(data, name, list, where) or []
    if len(value) > max_length:
        said = f"Expected an array with maximum length {max_length}, but got an array with length {len(value)} instead."
        raise BadRequest(f"Invalid '{where}': array too long. {said}", where, "array_above_max_length")
    return value


def optional_number(data: Mapping[str, Any], name: str, low: float, high: float, *, whole: bool = False) -> Any:
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
