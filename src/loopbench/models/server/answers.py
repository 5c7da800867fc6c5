"""Answers to a chat request as bytes: whole, as a stream, and broken on purpose. Nothing here knows a socket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from loopbench.protocol import Reply

from ..wires.chat import ChatRequest, chunks, completion
from .bodies import json_bytes

JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_LAST_EVENT = b"data: [DONE]\n\n"
_BROKEN_OFF = Reply("Let me think about this.")
"""What a reply that never comes begins with: nothing in it is of use to the loop."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """What the client of a chat request meets; the status is 200."""

    pieces: tuple[bytes, ...] = ()
    """The body, as it is written."""
    headers: Mapping[str, str] | None = None
    ending: Literal["whole", "cut", "dropped"] = "whole"
    """`cut`: the connection closes after the pieces, before the body's end; `dropped`: it is reset, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer to one chat request."""

    asked: ChatRequest
    id: str
    created: int
    headers: Mapping[str, str]
    """Headers of any answer with status 200."""

    def whole(self, reply: Reply) -> WireAnswer:
        """Return a reply, as a stream if that is what the request asks for."""
        if self.asked.stream:
            return self._stream(*self._events(reply, self.asked.include_usage), _LAST_EVENT)
        return self._plain(self._body(reply))

    def cut(self) -> WireAnswer:
        """Return the first half of an answer, after which the connection closes."""
        if self.asked.stream:
            first, second, *_ = self._events(_BROKEN_OFF)
            return WireAnswer((first, second[: len(second) // 2]), {**self.headers, **SSE}, "cut")
        whole = self._body(_BROKEN_OFF)
        headers = {**self.headers, **JSON, "Content-Length": str(len(whole))}
        return WireAnswer((whole[: len(whole) // 2],), headers, "cut")

    def garbled(self) -> WireAnswer:
        """Return a complete answer of status 200 that is not JSON."""
        whole = self._body(_BROKEN_OFF)
        half = whole[: len(whole) // 2]
        return self._stream(b"data: " + half + b"\n\n", _LAST_EVENT) if self.asked.stream else self._plain(half)

    def _plain(self, body: bytes) -> WireAnswer:
        return WireAnswer((body,), {**self.headers, **JSON, "Content-Length": str(len(body))})

    def _stream(self, *events: bytes) -> WireAnswer:
        return WireAnswer(events, {**self.headers, **SSE})

    def _body(self, reply: Reply) -> bytes:
        return json_bytes(completion(reply, self.asked.model, self.id, self.created))

    def _events(self, reply: Reply, include_usage: bool = False) -> Iterator[bytes]:
        for chunk in chunks(reply, self.asked.model, self.id, self.created, include_usage):
            yield b"data: " + json_bytes(chunk) + b"\n\n"


DROPPED = WireAnswer(ending="dropped")
