"""A request that a recording does not hold: which recorded one is closest, and where the two differ."""

from __future__ import annotations

import difflib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from whichloop.protocol import ProviderError

from .lines import Exchange, RecordedRequest, escaped, part_id
from .recording import Recording

MAX_COMPARED = 300
"""Recorded requests that a missed one is compared with."""
DIFFERENCE_LINES, DIFFERENCE_WIDTH = 40, 200
_MAX_RENDERING = 2_000
"""Lines of a request that are compared."""


class RecordingError(ProviderError):
    """The recording failed, not the model: the trial says nothing about its loop, however it ends."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "connection")

    @property
    def is_transient(self) -> bool:
        """False: asking again does not help."""
        return False


class RecordingMiss(RecordingError):
    """A request that is not recorded. The message is one line; `difference` shows more."""

    def __init__(self, message: str, requested: Mapping[str, Any], recorded: Mapping[str, Any] | None = None) -> None:
        """`requested`, `recorded`: the canonical request and the closest recorded one."""
        super().__init__(message)
        self.requested = requested
        self.recorded = recorded

    @cached_property
    def difference(self) -> str:
        """A unified diff from the recorded request to the one asked, at most 40 lines of 200 characters; empty if none is close."""
        if self.recorded is None:
            return ""
        old, new = (list(itertools.islice(_rendered(value), _MAX_RENDERING)) for value in (self.recorded, self.requested))
        lines = list(difflib.unified_diff(old, new, "recorded", "asked", lineterm="", n=2))
        if len(lines) > DIFFERENCE_LINES:
            more = len(lines) - DIFFERENCE_LINES + 1
            lines = [*lines[: DIFFERENCE_LINES - 1], f"… {more} more lines"]
        return "\n".join(lines)


def miss_of(recording: Recording, wanted: RecordedRequest, request: Mapping[str, object]) -> RecordingMiss:
    """Return the error for a canonical request that the recording does not hold."""
    head = f"not recorded: call {wanted.call + 1} ({wanted.role}) of {wanted.lane}"
    closest = _closest(recording, wanted, request)
    if closest is None:
        return RecordingMiss(escaped(f"{head}; the recording of {recording.model} is empty"), request)
    recorded, other = recording.request(closest), closest.request
    differing = ", ".join(sorted(name for name in recorded.keys() | request.keys() if recorded.get(name) != request.get(name)))
    found = f"closest is call {other.call + 1} ({other.role}) of {other.lane}; it differs in {differing}"
    if other.digest == wanted.digest:
        at = other.lane.repeat
        found = f"recorded {wanted.occurrence} × in one trial only" if at == wanted.lane.repeat else f"recorded in repeat {at} only"
    return RecordingMiss(escaped(f"{head}; {found}"), request, recorded)


def _closest(recording: Recording, wanted: RecordedRequest, request: Mapping[str, Any]) -> Exchange | None:
    """Return the exchange that shares most messages, of the same task if any is recorded."""
    lane = wanted.lane
    candidates = recording.by_task.get(lane.task)
    if candidates is None:
        candidates = list(itertools.chain.from_iterable(recording.by_task.values()))
    own = [part_id("message", message) for message in request["messages"]]

    def distance(other: Exchange) -> tuple[Any, ...]:
        its = other.request
        common = sum((Counter(own) & Counter(other.parts.messages)).values())
        share = common / max(len(own), len(other.parts.messages), 1)
        elsewhere = (its.role != wanted.role, its.lane.arm != lane.arm, its.lane.repeat != lane.repeat)
        return (its.digest != wanted.digest, -share, *elsewhere, abs(its.call - wanted.call), its.place)

    return min(_promising(candidates, wanted), key=distance, default=None)


def _promising(candidates: list[Exchange], wanted: RecordedRequest) -> list[Exchange]:
    """Return as many candidates as may be compared: the same request, then those of the trial, of its arm, of its role."""
    if len(candidates) <= MAX_COMPARED:
        return candidates

    def doubt(other: Exchange) -> tuple[bool, ...]:
        its = other.request
        return (its.digest != wanted.digest, its.lane != wanted.lane, its.lane.arm != wanted.lane.arm, its.role != wanted.role)

    return sorted(candidates, key=doubt)[:MAX_COMPARED]


def _rendered(request: Mapping[str, Any]) -> Iterator[str]:
    """Write a request in lines that can be compared: texts broken where they break, long lines folded."""
    for name in sorted(request.keys() - {"messages", "tools"}):
        yield from _folded(f"{name}: {json.dumps(request[name], ensure_ascii=False, sort_keys=True)}")
    for tool in request.get("tools", ()):
        yield from _folded(f"tool {tool['name']}: {json.dumps(tool['description'], ensure_ascii=False)}")
        yield from _folded(f"  {json.dumps(tool['parameters'], ensure_ascii=False, sort_keys=True)}")
    for message in request["messages"]:
        answers = f" answers {message['tool_call_id']}" if "tool_call_id" in message else ""
        yield from _folded(f"[{message['role']}{answers}]")
        content = message["content"]
        for line in (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)).split("\n"):
            yield from _folded(f"  {line}")
        for call in message.get("tool_calls", ()):
            yield from _folded(f"  {call['id']}: {call['function']['name']} {call['function']['arguments']}")


def _folded(line: str) -> Iterator[str]:
    plain = escaped(line)
    width = DIFFERENCE_WIDTH - 1  # the diff's own mark comes before
    for start in range(0, max(len(plain), 1), width):
        yield plain[start : start + width]
