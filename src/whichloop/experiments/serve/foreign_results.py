"""Results of a program's own tools: they are compared with the true results and receive receipts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.datasets.validity import Replayed
from whichloop.models.receipts import ReceiptEntry, call_digest
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Message, NativeCall, Reply, Request, WireError
from whichloop.protocol.receipts import sightings
from whichloop.protocol.wire import from_json, read_call

RELATIVE_ERROR = 1e-9
"""Relative tolerance within which two numbers are the same result."""


@dataclass(slots=True)
class ForeignResults:
    """Receipts for results of a program's own tools, which are tool messages that answer a call of the model.

    A result that equals the suite's is the true one; the model believes any other as it is. An error is not a result, unless the
    plan expects one. The program does not see receipts, which are only in the model's view of the request.
    """

    tunnel: Tunnel
    calls: dict[str, list[NativeCall]] = field(default_factory=dict)
    """Id → calls of the model; a program that drops its history gets the same id again."""
    entries: dict[tuple[str, str], ReceiptEntry | None] = field(default_factory=dict)
    """(CALL, text) → the result as it was signed, None for an error."""
    suite_calls: set[str] = field(default_factory=set)
    """CALL digests of calls of the suite's own tools, whose results already have receipts unless a fault replaced them."""

    def add_reply(self, reply: Reply) -> None:
        """Add the calls of a reply."""
        for call in reply.calls:
            self.calls.setdefault(call.id, []).append(call)

    def with_receipts(self, request: Request, replayed: Mapping[str, Replayed]) -> Request:
        """Return the request with its results between the marks of their receipts; `replayed`: CALL digest → true result."""
        named: dict[str, NativeCall] = {}
        messages = []
        for message in request.messages:
            named |= {call.id: call for call in message.calls}
            messages.append(
                self._with_receipt(message, named.get(message.call_id), replayed) if message.role == "tool" else message
            )
        return request if list(request.messages) == messages else replace(request, messages=tuple(messages))

    def _with_receipt(self, message: Message, call_in_request: NativeCall | None, replayed: Mapping[str, Replayed]) -> Message:
        calls = self.calls.get(message.call_id)
        if not calls or sightings(message.content):
            return message
        try:
            call = read_call(next((call for call in reversed(calls) if call == call_in_request), calls[-1]))
        except WireError:  # a damaged call, which cannot have a result
            return message
        key = (call_digest(call.name, call.arguments), message.content)
        if key[0] in self.suite_calls:
            return message
        if key not in self.entries:
            self.entries[key] = self._entry(*key, replayed.get(key[0]))
        entry = self.entries[key]
        return message if entry is None else replace(message, content=entry.around(message.content))

    def _entry(self, digest: str, text: str, truth: Replayed | None) -> ReceiptEntry | None:
        """Sign a result, and vouch that the program's words for it show all of it."""
        result, ledger = read_result(text), self.tunnel.ledger
        value = unwrapped(result)
        is_same = truth is not None and (same_result(result, truth.value) or same_result(value, truth.value))
        if truth is not None and truth.failed:
            expected = is_error(text) or isinstance(value, str)  # in any wording
            entry = ledger.sign(digest, truth.text if expected else text, None if expected else value, False)
        elif is_error(text):
            return None
        elif truth is not None and (is_same or text.strip() == truth.text.strip()):
            entry = ledger.sign(digest, truth.text, truth.value, True)
        else:
            entry = ledger.sign(digest, text, value, True)
        ledger.vouch(entry, text)
        return entry


_ERROR = re.compile(r"\W*(?:\w*error|\w*exception|traceback)\b", re.IGNORECASE)


def is_error(text: str) -> bool:
    """Return whether a tool's text is an error: it begins so, or is an object with a true `error` or `isError`, or an envelope
    (see `unwrapped`) whose status says so.
    """
    value = read_result(text)
    if isinstance(value, dict):
        if value.get("error") or value.get("isError"):
            return True
        return _is_envelope(value) and (value.get("status") in _FAILED or value.get("ok") is False or value.get("success") is False)
    return _ERROR.match(text) is not None


_INSIDE = ("data", "result", "output", "value", "content", "text")
_BESIDE = frozenset({"status", "ok", "success", "error", "isError", "type", "id", "name", "tool", "tool_name", "tool_call_id"})
_FAILED = ("error", "failed", "failure")


def unwrapped(value: Any) -> object:
    """Return the content of an envelope: an object with one of `data`, `result`, `output`, … and otherwise only metadata, such as
    `{"status": "success", "data": 9}`, also as the only item of a list as in MCP. Other values are returned unchanged.
    """
    if isinstance(value, list) and len(value) == 1 and _is_envelope(value[0]):
        return unwrapped(value[0])
    if not _is_envelope(value):
        return value
    inner = next(value[name] for name in _INSIDE if name in value)
    return unwrapped(read_result(inner) if isinstance(inner, str) else inner)


def _is_envelope(value: object) -> bool:
    return isinstance(value, dict) and sum(name in value for name in _INSIDE) == 1 and value.keys() <= {*_INSIDE, *_BESIDE}


def read_result(text: str) -> Any:
    """Return the value of a tool's text: its JSON value, parsed again if that is JSON text; else the text."""
    value: Any = text
    for _ in range(2):
        try:
            value = from_json(value)
        except ValueError:
            break
        if not isinstance(value, str):
            break
    return value


def same_result(a: object, b: object) -> bool:
    """Return whether two results are equal: numbers to nine digits, whatever their type; numeric text counts as a number."""
    a, b = (read_result(item) if isinstance(item, str) else item for item in (a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        try:
            return math.isclose(a, b, rel_tol=RELATIVE_ERROR)
        except OverflowError:  # an integer too large for a float
            return a == b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_result(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_result, a, b))
    return bool(a == b)
