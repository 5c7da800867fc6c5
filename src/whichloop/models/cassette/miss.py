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
MAX_SHOWN = 60
"""Characters of a text that an error shows."""
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
    if other.digest == wanted.digest:
        only = (
            f"of repeat {other.lane.repeat}"
            if other.lane.repeat != wanted.lane.repeat
            else f"{'once' if wanted.occurrence == 1 else f'{wanted.occurrence} times'} in one trial"
        )
        return RecordingMiss(_line(f"{head}; the same request is recorded {only} only"), request, recorded)
    place = f"call {other.call + 1} ({other.role}) of {other.lane}"
    return RecordingMiss(_line(f"{head}; closest is {place}: {'; '.join(_differences(recorded, request))}"), request, recorded)


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


def _differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> Iterator[str]:
    """Describe the settings that differ, then the first message that does."""
    for name in sorted((recorded.keys() | requested.keys()) - {"messages"}):
        old, new = recorded.get(name), requested.get(name)
        if old == new:
            continue
        if name == "tools":
            yield _tools_difference(old or [], new or [])
        elif name in ("response_schema", "grammar"):
            yield f"another {name}" if old and new else f"{'no ' if not new else ''}{name} asked"
        else:
            yield f"{name}: {_short_json(old)} recorded, {_short_json(new)} asked"
    pairs = itertools.zip_longest(recorded["messages"], requested["messages"])
    for number, (before, now) in enumerate(pairs, 1):
        if before != now:
            yield _message_difference(number, before, now)
            return


def _tools_difference(old: list[Mapping[str, Any]], new: list[Mapping[str, Any]]) -> str:
    before, now = ([str(tool["name"]) for tool in tools] for tools in (old, new))
    if before != now:
        return f"tools: {', '.join(before) or 'none'} recorded, {', '.join(now) or 'none'} asked"
    name = next(one["name"] for one, other in zip(old, new, strict=True) if one != other)
    return f"tool {name} is described otherwise"


def _message_difference(number: int, before: Mapping[str, object] | None, now: Mapping[str, object] | None) -> str:
    if before is None or now is None:
        there = before or now or {}
        return f"message {number} ({there['role']}) {'was not recorded' if before is None else 'is not asked'}"
    if before["role"] != now["role"]:
        return f"message {number} is from {before['role']} in the recording, from {now['role']} as asked"
    what = next(name for name in ("content", "tool_calls", "tool_call_id") if before.get(name) != now.get(name))
    old, new = (str(value["content"]) if what == "content" else json.dumps(value.get(what)) for value in (before, now))
    at = next((index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new)))
    start = max(0, at - MAX_SHOWN // 3)
    return f"message {number} ({now['role']}) has {_short_json(old[start:])} recorded, {_short_json(new[start:])} asked"


def _short_json(value: object) -> str:
    if isinstance(value, str) and len(value) > MAX_SHOWN:
        value = f"{value[:MAX_SHOWN]}…"
    return json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return escaped(text if len(text) <= 1_000 else f"{text[:1_000]}…")


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
