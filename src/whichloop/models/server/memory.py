"""What a server remembers between requests: answers that later requests refer to, and beginnings in the prompt cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from whichloop.protocol.wire import from_json

from ..wires.contract import CacheMark
from .bodies import json_bytes

MAX_ANSWERS = 4_096
MAX_ANSWERS_BYTES = 64 * 1024 * 1024
"""Answers that can be referred to, and what is kept of them; the one that was used least recently is forgotten first."""
MAX_CACHED = 16_384
"""Beginnings of requests in the prompt cache, forgotten in the same order."""


class Memory:
    """Answers by id, and the digests of cached beginnings."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        """As JSON, which takes less room than the objects."""
        self._bytes = 0
        self._cached: OrderedDict[tuple[str | None, str], None] = OrderedDict()

    def keep(self, answer: tuple[str, Sequence[object]] | None) -> None:
        """Keep what a later request may recall by an id."""
        if answer is None:
            return
        encoded = self._answers[answer[0]] = json_bytes(answer[1])
        self._bytes += len(encoded)
        while len(self._answers) > MAX_ANSWERS or self._bytes > MAX_ANSWERS_BYTES:
            self._bytes -= len(self._answers.popitem(last=False)[1])

    def recall(self, answer_id: str) -> Sequence[Any] | None:
        """Return what was kept of an answer, None if nothing is."""
        encoded = self._answers.get(answer_id)
        if encoded is None:
            return None
        self._answers.move_to_end(answer_id)
        items: list[Any] = from_json(encoded.decode())
        return items

    def cached(self, trial: str | None, marks: Sequence[CacheMark]) -> tuple[int, int]:
        """Put the beginnings of a request into its trial's prompt cache. Return the tokens found there, and those put there.

        A trial never meets what another one has cached: its result would depend on which of them came first.
        """
        cached_tokens = max((mark.tokens for mark in marks if (trial, mark.digest) in self._cached), default=0)
        written = [mark for mark in marks if mark.is_written]
        for mark in written:
            self._cached[trial, mark.digest] = None
            self._cached.move_to_end((trial, mark.digest))
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        longest = max((mark.tokens for mark in written), default=0)
        return cached_tokens, longest - cached_tokens
