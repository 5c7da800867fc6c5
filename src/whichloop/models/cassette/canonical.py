"""The one form in which recordings know a request: secrets out, call ids renamed by order of appearance, and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
