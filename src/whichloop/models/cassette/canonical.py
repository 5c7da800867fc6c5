"""The one form in which recordings know a request: secrets out, call ids renamed by order of appearance, and its digest; and
dataclasses as JSON objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from whichloop.protocol import Request
from whichloop.protocol.digest import canonical_json, digest
from whichloop.protocol.redact import redact
from whichloop.protocol.wire import from_json

MAX_DEPTH = 100
"""Levels of lists and objects in a request; a deeper one is neither asked nor recorded."""
_REMEMBERED = ("tools", "response_schema", "grammar")
MAX_REMEMBERED = 1024
"""Cleaned texts, and cleaned tools and schemas, that are remembered: a conversation shows the same ones again and again."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """A request as a recording knows it."""

    value: Mapping[str, Any]
    """`Request.as_dict()`, cleaned."""
    digest: str
    """sha256 of its canonical JSON, 64 hex digits."""


class Cleaner:
    """Makes texts and requests fit to be written down."""

    def __init__(self) -> None:
        self.text = lru_cache(maxsize=MAX_REMEMBERED)(_clean)
        self._cached_part = lru_cache(maxsize=MAX_REMEMBERED)(self._read_part)

    def request(self, request: Request) -> Canonical:
        """Return a request in its canonical form. Raises ValueError for one that JSON cannot express or that is too deep."""
        value = request.as_dict()
        _rename_calls(value["messages"])
        try:
            value |= {name: float(value[name]) for name in ("temperature", "top_p") if name in value}  # 0 asks for the same as 0.0
            cached = {name: self._cached_part(canonical_json(value.pop(name))) for name in _REMEMBERED if name in value}
            plain = self._plain(value, MAX_DEPTH) | cached
            return Canonical(plain, digest(plain))
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None

    def _read_part(self, text: str) -> object:
        return self._plain(from_json(text), MAX_DEPTH - 1)

    def _plain(self, value: Any, depth: int) -> Any:
        """Return a copy of a JSON value with all its texts cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth == 0:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            return {self.text(key): self._plain(item, depth - 1) for key, item in value.items()}
        return [self._plain(item, depth - 1) for item in value]


def _clean(text: str) -> str:
    """Remove secrets, and join the halves of a surrogate pair, which no file could keep apart, into one character."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return redact(text)


def _rename_calls(messages: list[dict[str, Any]]) -> None:
    """Rename call ids, which providers make up: what counts is which result answers which call."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["id"] = names.setdefault(call["id"], f"call_{len(names)}")
        if "tool_call_id" in message:
            message["tool_call_id"] = names.setdefault(message["tool_call_id"], f"call_{len(names)}")


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
