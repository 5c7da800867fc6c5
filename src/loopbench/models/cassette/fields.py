"""Reading an object of a file that others may have written: each field once, held against its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
MAX = 10**15
"""Larger numbers are no counts, seconds or dollars; what is computed from them would overflow."""


class Fields:
    """The fields of an object, each taken once and held against its type. All raise ValueError, which names the field."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left = dict(values)

    def __contains__(self, name: object) -> bool:
        return name in self._left

    def taken(self, name: str, *kinds: type) -> Any:
        """A value of one of these types; no bool passes for a number."""
        if name not in self._left:
            raise ValueError(f"no {name!r}")
        value = self._left.pop(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{name!r} is a {type(value).__name__}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        return default if default is not None and name not in self._left else str(self.taken(name, str))

    def whole(self, name: str, default: int | None = None) -> int:
        """A count: no negative number."""
        return default if default is not None and name not in self._left else int(_sane(name, self.taken(name, int)))

    def number(self, name: str, default: float) -> float:
        """Seconds or dollars: nothing negative."""
        return _sane(name, self.taken(name, int, float)) if name in self._left else default

    def maybe_number(self, name: str) -> float | None:
        return self.number(name, 0.0) if name in self._left else None

    def flag(self, name: str) -> bool:
        """False where it is left out."""
        return bool(self.taken(name, bool)) if name in self._left else False

    def one_of(self, name: str, allowed: tuple[T, ...], default: T | None = None) -> T:
        if default is not None and name not in self._left:
            return default
        value = self.taken(name, str)
        if value not in allowed:
            raise ValueError(f"{name!r} is {value!r}")
        return allowed[allowed.index(value)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Empty where it is left out."""
        items = self.taken(name, list) if name in self._left else []
        if not all(isinstance(item, str) for item in items):
            raise ValueError(f"{name!r} holds something else than texts")
        return tuple(items)

    def objects(self, name: str) -> Iterator[Fields]:
        """None where it is left out."""
        for item in self.taken(name, list) if name in self._left else []:
            if not isinstance(item, dict):
                raise ValueError(f"{name!r} holds something else than objects")
            yield Fields(item)

    def end(self) -> None:
        """Raises ValueError where a field was not taken."""
        if self._left:
            raise ValueError(f"unknown field {next(iter(self._left))!r}")


def _sane(name: str, value: float) -> float:
    if not 0 <= value <= MAX:
        raise ValueError(f"{name!r} is {'negative' if value < 0 else f'larger than {MAX}'}")
    return value
