"""Dataclasses as JSON objects: written without what equals its default, and read from files that others may have written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
MAX = 10**15
"""The largest count, seconds or dollars that are read; what is computed from larger numbers would overflow."""


def as_json(value: Any) -> Any:
    """Write a dataclass as an object without the fields that equal their defaults, and tuples as lists."""
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    return {name: as_json(own) for name, default, _ in _fields(value.__class__) if (own := getattr(value, name)) != default()}


def read_as(kind: type[T], values: Mapping[str, Any]) -> T:
    """Read a dataclass of texts, flags, numbers that are not negative, objects, and tuples of these.

    Raises ValueError, which names the field, for a value of another type, and for a field that is missing or unknown.
    """
    expected_fields = _fields(kind)  # type: ignore[arg-type]  # mypy does not take a class for hashable
    for name, default, _ in expected_fields:
        if name not in values and default() is dataclasses.MISSING:
            raise ValueError(f"no {name!r}")
    unknown = values.keys() - {name for name, _, _ in expected_fields}
    if unknown:
        raise ValueError(f"unknown field {min(unknown)!r}")
    return kind(**{name: _read_field(name, hint, values[name]) for name, _, hint in expected_fields if name in values})


@lru_cache(maxsize=64)
def _fields(kind: Any) -> list[tuple[str, Callable[[], Any], Any]]:
    """Return name, maker of the default and type of each field of a dataclass."""
    hints = get_type_hints(kind)
    return [(item.name, _default(item), hints[item.name]) for item in dataclasses.fields(kind)]


def _default(item: dataclasses.Field[Any]) -> Callable[[], Any]:
    return (lambda: item.default) if item.default_factory is dataclasses.MISSING else item.default_factory


def _read_field(name: str, hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin is UnionType:
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        if len(kinds) > 1:
            return _checked(name, value, *(get_origin(kind) or kind for kind in kinds))
        return None if value is None else _read_field(name, kinds[0], value)
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{name!r} is {value!r}")
        return value
    if origin is tuple:
        return tuple(_read_field(name, get_args(hint)[0], item) for item in _checked(name, value, list))
    if origin is not None:
        return _checked(name, value, dict)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return read_as(hint, _checked(name, value, dict))
    if hint in (int, float):
        return _sane(name, _checked(name, value, int, hint))
    return _checked(name, value, hint)


def _checked(name: str, value: Any, *kinds: type) -> Any:
    """Return a value of one of these types; a bool does not pass for a number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{name!r} is a {type(value).__name__}")
    return value


def _sane(name: str, value: float) -> float:
    if not 0 <= value <= MAX:
        raise ValueError(f"{name!r} is {'negative' if value < 0 else f'larger than {MAX}'}")
    return value
