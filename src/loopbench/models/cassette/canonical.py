"""The one form in which recordings know a request: secrets out, call ids renamed by order of appearance, and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from loopbench.protocol import Request
from loopbench.protocol.digest import digest
from loopbench.protocol.redact import redact

MOST_DEPTH = 100
"""Levels of lists and objects in a request; a deeper one is neither asked nor recorded."""
MOST_REMEMBERED = 1024
"""Cleaned texts that are remembered: a conversation shows the same ones again and again."""


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
        self.text = lru_cache(maxsize=MOST_REMEMBERED)(_clean)

    def request(self, request: Request) -> Canonical:
        """Raises ValueError for a request that JSON cannot say, or that is nested too deep."""
        value = request.as_dict()
        _rename_calls(value["messages"])
        for name in ("temperature", "top_p"):
            if name in value:
                value[name] = float(value[name])  # 0 and 0.0 ask for the same
        try:
            made = self._plain(value, MOST_DEPTH)
            return Canonical(made, digest(made))
        except TypeError as error:
            raise ValueError(str(error)) from None

    def _plain(self, value: Any, depth: int) -> Any:
        """A copy, all its texts cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth == 0:
            raise ValueError(f"nested deeper than {MOST_DEPTH} levels")
        if isinstance(value, Mapping):
            return {self._key(key): self._plain(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item, depth - 1) for item in value]
        raise ValueError(f"a {type(value).__name__} is no JSON")

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise ValueError(f"{key!r} is no key of a JSON object")
        return self.text(key)


def _clean(text: str) -> str:
    """Without secrets; two halves of a surrogate pair, which no file could keep apart, as the one character they are."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return redact(text)


def _rename_calls(messages: list[dict[str, Any]]) -> None:
    """Providers make call ids up: what counts is which result answers which call."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["id"] = names.setdefault(call["id"], f"call_{len(names)}")
        if "tool_call_id" in message:
            message["tool_call_id"] = names.setdefault(message["tool_call_id"], f"call_{len(names)}")
