"""Checked reading of the fields of a Messages request, with the errors in Anthropic's words, which are mostly pydantic's.

`where`: the field's full path in the body, such as `tools.0.custom.name`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from .fields import BadRequest

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
