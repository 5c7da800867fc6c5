"""Results of tools that are not the suite's: what a program tells the scripted model, held against the true results."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loopbench.datasets.validity import Replayed
from loopbench.models.receipts import ReceiptEntry, call_digest, sightings
from loopbench.models.tunnel import Tunnel
from loopbench.protocol import Message, NativeCall, Reply, Request, WireError
from loopbench.protocol.wire import from_json, read_call

RELATIVE_ERROR = 1e-9
"""Within which two numbers are the same result."""


@dataclass(slots=True)
class ForeignResults:
    """Receipts for results of tools that are not the suite's: a tool message serves that answers a call which the model made.

    A result that means the same as the suite's is the true one; of any other the model believes what it is told. An error is no
    result, except where the plan expects one. The program sees none of this: receipts stand in the model's view of the request.
    """

    tunnel: Tunnel
    made: dict[str, list[NativeCall]] = field(default_factory=dict)
    """The model's calls by id; a program that drops its history meets an id again."""
    entries: dict[tuple[str, str], ReceiptEntry | None] = field(default_factory=dict)
    """(CALL, text) → the result as it was signed, None for an error."""
    not_own: set[str] = field(default_factory=set)
    """CALL digests of what the suite's own tools were asked for: their results have receipts, and their faults none."""

    def heard(self, reply: Reply) -> None:
        """The model has made these calls."""
        for call in reply.calls:
            self.made.setdefault(call.id, []).append(call)

    def signed(self, request: Request, replayed: Mapping[str, Replayed]) -> Request:
        """The request with the results in it between the marks of their receipts; `replayed`: true results by CALL digest."""
        asked: dict[str, NativeCall] = {}
        messages = []
        for message in request.messages:
            asked |= {call.id: call for call in message.calls}
            messages.append(self._signed(message, asked.get(message.call_id), replayed) if message.role == "tool" else message)
        return request if list(request.messages) == messages else replace(request, messages=tuple(messages))

    def _signed(self, message: Message, shown: NativeCall | None, replayed: Mapping[str, Replayed]) -> Message:
        made = self.made.get(message.call_id)
        if not made or sightings(message.content):
            return message
        try:
            call = read_call(next((call for call in reversed(made) if call == shown), made[-1]))
        except WireError:  # the wire spoiled it: nothing can have come of it
            return message
        key = (call_digest(call.name, call.arguments), message.content)
        if key[0] in self.not_own:
            return message
        if key not in self.entries:
            self.entries[key] = self._entry(*key, replayed.get(key[0]))
        entry = self.entries[key]
        return message if entry is None else replace(message, content=entry.around(message.content))

    def _entry(self, digest: str, text: str, true: Replayed | None) -> ReceiptEntry | None:
        """Sign a result, and vouch that the program's words for it show all of it."""
        whole, ledger = read_result(text), self.tunnel.ledger
        value = unwrapped(whole)
        alike = true is not None and (same_result(whole, true.value) or same_result(value, true.value))
        if true is not None and true.failed:
            expected = is_error(text) or isinstance(value, str)  # in whatever words a program tells it
            entry = ledger.sign(digest, true.text if expected else text, None if expected else value, False)
        elif is_error(text):
            return None
        elif true is not None and (alike or text.strip() == true.text.strip()):
            entry = ledger.sign(digest, true.text, true.value, True)
        else:
            entry = ledger.sign(digest, text, value, True)
        ledger.vouch(entry, text)
        return entry


_ERROR = re.compile(r"\W*(?:\w*error|\w*exception|traceback)\b", re.IGNORECASE)


def is_error(text: str) -> bool:
    """Whether a tool's text tells of a failure: it begins so, or is an object with a true `error` or `isError`, or an envelope
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


def unwrapped(value: Any) -> Any:
    """What an envelope holds: an object of one of `data`, `result`, `output`, … and of nothing else but what is said about it, as
    `{"status": "success", "data": 9}`; also as the only item of a list, as MCP has it. Anything else is itself.
    """
    if isinstance(value, list) and len(value) == 1 and _is_envelope(value[0]):
        return unwrapped(value[0])
    if not _is_envelope(value):
        return value
    inner = next(value[name] for name in _INSIDE if name in value)
    return unwrapped(read_result(inner) if isinstance(inner, str) else inner)


def _is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and sum(name in value for name in _INSIDE) == 1 and value.keys() <= {*_INSIDE, *_BESIDE}


def read_result(text: str) -> Any:
    """The value that a tool's text stands for: what it is as JSON, also where that is text that is JSON; else the text."""
    value: Any = text
    for _ in range(2):
        try:
            value = from_json(value)
        except ValueError:
            break
        if not isinstance(value, str):
            break
    return value


def same_result(one: Any, other: Any) -> bool:
    """Equal as results: numbers to nine digits, whatever their type; text that is a number is one."""
    one, other = (read_result(item) if isinstance(item, str) else item for item in (one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        try:
            return math.isclose(one, other, rel_tol=RELATIVE_ERROR)
        except OverflowError:  # a whole number beyond any float
            return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_result(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_result, one, other))
    return bool(one == other)
