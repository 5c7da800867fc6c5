"""Anthropic's prompt cache, the request's side: which beginnings of a request its client wants to be kept.

A request is, in this order, its tools, its system prompt and its messages; a mark on a block means all up to that block. What an
earlier request has put there is found at a mark, or up to `LOOKBACK` blocks before it (Anthropic's documentation, "Prompt
caching"). A beginning of any length is kept here, while Anthropic keeps none of fewer than 1,024 tokens or so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from whichloop.protocol.digest import canonical_json
from whichloop.protocol.tokens import CHARS_PER_TOKEN

from .anthropic_fields import checked, one_of, only_known, optional
from .contract import CacheMark
from .fields import BadRequest

LOOKBACK = 20
"""Blocks before a mark where what was kept earlier is looked for."""
MAX_MARKS = 4
DEFAULT_TTL = "5m"


class CachePlan(NamedTuple):
    """What a request asks of the cache."""

    marks: tuple[CacheMark, ...] = ()
    ttl: str = DEFAULT_TTL
    """How long the beginnings are to be kept, `5m` or `1h`; the longest that the request names."""


class _Piece(NamedTuple):
    """A block of a request."""

    where: str
    kind: str
    """What is before its content: the role of its message, or `tools` or `system`."""
    content: Mapping[str, Any]
    """The block without its mark."""
    control: Any
    """Its mark, None if absent."""


def cache_plan(body: Mapping[str, object], max_tokens: int) -> CachePlan:
    """Return what a request, whose other fields are checked, asks of the cache. Raises BadRequest.

    `max_tokens`: tokens of the whole request; no beginning has more.
    """
    pieces = list(_pieces(body))
    controls = [(number, piece.where, piece.control) for number, piece in enumerate(pieces) if piece.control is not None]
    if (whole := optional(body, "cache_control", dict)) is not None and pieces:
        controls.append((len(pieces) - 1, "", whole))
    if not controls:
        return CachePlan()
    if len(controls) > MAX_MARKS:
        raise BadRequest(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(controls)}.")
    ttls = [_ttl(control, f"{where}.cache_control" if where else "cache_control") for _, where, control in controls]
    marked = {number for number, _, _ in controls}
    looked_for = {place for number in marked for place in range(max(0, number - LOOKBACK), number)}
    return CachePlan(tuple(_marks(body, pieces, marked, looked_for, max_tokens)), max(ttls, key=lambda ttl: ttl == "1h"))


def _ttl(control: object, where: str) -> str:
    data = checked(control, dict, where)
    one_of(data.get("type"), ("ephemeral",), f"{where}.type")
    only_known(data, ("type", "ttl", "scope"), f"{where}.ephemeral")
    return one_of(data.get("ttl") or DEFAULT_TTL, ("5m", "1h"), f"{where}.ephemeral.ttl")


def _marks(
    body: Mapping[str, object], pieces: list[_Piece], marked: set[int], looked_for: set[int], max_tokens: int
) -> Iterator[CacheMark]:
    """Yield the beginnings that end at the wanted pieces, the shortest first."""
    whole = hashlib.sha256(str(body.get("model")).encode("utf-8", "replace"))
    chars = 0
    for number, piece in enumerate(pieces):
        text = canonical_json([piece.kind, piece.content])
        whole.update(text.encode("utf-8", "replace"))
        chars += _chars(piece.content)
        if number in marked or number in looked_for:
            yield CacheMark(whole.hexdigest(), min(chars // CHARS_PER_TOKEN, max_tokens), number in marked)


def _pieces(body: Mapping[str, Any]) -> Iterator[_Piece]:
    """Yield all blocks of a request, in the order in which they are cached."""
    for place, tool in enumerate(body.get("tools") or []):
        yield _piece(f"tools.{place}.custom", "tools", tool)
    for where, kind, content in _contents(body):
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for index, block in enumerate(blocks):
            yield _piece(f"{where}.{index}", kind, block)


def _contents(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    if body.get("system"):
        yield "system", "system", body["system"]
    for place, message in enumerate(body["messages"]):
        yield f"messages.{place}.content", message["role"], message["content"]


def _piece(where: str, kind: str, block: Mapping[str, object]) -> _Piece:
    rest = {name: value for name, value in block.items() if name != "cache_control"}
    inner = rest.get("content")
    if isinstance(inner, list):  # the blocks of a result may be marked too
        marks = [part["cache_control"] for part in inner if isinstance(part, dict) and part.get("cache_control") is not None]
        rest["content"] = [
            {name: part[name] for name in part if name != "cache_control"} for part in inner if isinstance(part, dict)
        ]
        return _Piece(where, kind, rest, block.get("cache_control", marks[-1] if marks else None))
    return _Piece(where, kind, rest, block.get("cache_control"))


def _chars(content: Mapping[str, Any]) -> int:
    """Return how many characters a block shows to the model."""
    chars = sum(len(content[name]) for name in ("name", "text", "description") if isinstance(content.get(name), str))
    chars += sum(len(canonical_json(content[name])) for name in ("input", "input_schema") if name in content)
    inner = content.get("content")
    if isinstance(inner, str):
        return chars + len(inner)
    parts = inner if isinstance(inner, list) else ()
    return chars + sum(_chars(part) for part in parts if isinstance(part, dict))
