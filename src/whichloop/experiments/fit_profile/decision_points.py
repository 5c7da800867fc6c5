"""Sorting a trace into decision points: the requests, the attempts, and the fault of the first attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TraceEvent, TraceHead
from whichloop.models.faults import CALLING
from whichloop.models.feedback import COMPLAINTS, FaultSigns, Level, level_shown, words_of
from whichloop.protocol import Message, Reply, Request
from whichloop.protocol.json_text import digest
from whichloop.protocol.tool_calls import NEVER_RAN

from .attempts import (
    DECIDE,
    MAX_HINT_CHARS,
    REPEATED,
    SETTLED,
    TOOL,
    Attempt,
    Key,
    Shape,
    StatedCall,
    hint_of,
    stands_in,
    stated_call,
)
from .forgetting import distance


class RetryRun(NamedTuple):
    """The retries of one mistake, by what their requests showed of it."""

    failed: tuple[Level, ...]
    cure: Level | None
    """That of the one that got through; None if none did."""


def level_of(before: Attempt, now: Attempt) -> Level:
    """Return how much the request of a retry shows of what was wrong, by the words of the mistake and what the tool gave back."""
    signs, tool_error = FaultSigns(), ""
    refused = next((call for call in before.calls if call.is_refused), None)
    if before.unreadable:
        signs = FaultSigns(frozenset(words_of(before.wire_error or "")), complaints=COMPLAINTS["wire"])
    elif refused is not None:
        names = frozenset(words_of(refused.tool, *(name for name, _ in refused.shape)))
        signs = FaultSigns(names=names, complaints=COMPLAINTS.get(refused.hint, frozenset()))
        tool_error = refused.last_error
    return level_shown(Request(before.messages), Request(now.messages), before.reply, signs, tool_error, None)


MAX_RETRIES = 10**6
"""Maximum plausible number of retries of one trial."""


@dataclass(slots=True)
class DecisionPoint:
    """A decision of a trial with its attempts, the first of which shows its fault."""

    role: str
    is_first: bool
    """Whether it is the first point of the trial that offers tools."""
    attempts: list[Attempt]

    @property
    def states_calls(self) -> bool | None:
        """Tell by the first valid move whether the point is a call; None if there is no valid move."""
        for attempt in self.attempts:
            if attempt.states and not attempt.repeats:
                return bool(attempt.calls)
        return None

    @property
    def has_arguments(self) -> bool:
        calls = next((attempt.calls for attempt in self.attempts if attempt.calls and not attempt.repeats), [])
        return not calls or any(call.shape for call in calls)

    def retries(self) -> RetryRun | None:
        """Return the retries after a first mistake that a retry may clear; None if there was no such mistake, or no retry."""
        first = self.attempts[0]
        if first.stumble in ("", REPEATED, TOOL) or first.error or not first.failed or len(self.attempts) < 2:
            return None
        failed: list[Level] = []
        for before, now in pairwise(self.attempts):
            level = level_of(before, now)
            if not now.failed:
                return RetryRun(tuple(failed), level)
            failed.append(level)
        return RetryRun(tuple(failed), None)


@dataclass(frozen=True, slots=True)
class ToolTrouble:
    """A call whose first run failed."""

    tool: str
    shape: Shape
    error: str
    strikes: int
    """Number of consecutive failed runs."""
    worked: bool
    """Whether the same call worked later in the trial."""
    after: str = ""
    """Digest of the call and of the calls that had worked before it, as `ReadTrial.worked_after` has them."""


def read_points(trace: Trace, retries: Mapping[str, int] | None = None) -> ReadTrial:
    """Sort a trace into points. `retries`: the client's own, by kind of failure. Raises ValueError for impossible counts."""
    head, counts = trace.head, {} if retries is None else retries
    if not isinstance(counts, Mapping) or not all(isinstance(count, int) and 0 <= count < MAX_RETRIES for count in counts.values()):
        raise ValueError(f"trace {head.arm}/{head.task}/{head.repeat}: retries are not counts by kind")
    read = ReadTrial(head, counts)
    for place, event in enumerate(trace.events):
        try:
            read.take(event)
        except ValueError as error:
            raise ValueError(f"trace {head.arm}/{head.task}/{head.repeat}: event {place}: {error}") from None
    read.points, read.extra_calls = _points(read.attempts)
    return read


# --- reading ---


class ReadTrial:
    """One trial, read event by event, and sorted into points."""

    def __init__(self, head: TraceHead, retries: Mapping[str, int]) -> None:
        self.head = head
        self.retries = retries
        """Retries by the client itself, by kind of failure."""
        self.points: Sequence[DecisionPoint] = ()
        self.extra_calls = 0
        """Number of calls after the first of their move, which only tool faults can affect."""
        self.attempts: list[Attempt] = []
        self.shown: dict[tuple[str, str], tuple[Message, ...]] = {}
        self.returned: list[str] = []
        """What the tools have returned, whether or not it was of use."""
        self.results: dict[Key, str] = {}
        """The beginning of each successful call's result."""
        self.runs: dict[Key, list[str]] = {}
        """Call → the error of each run, empty for a success."""
        self.made: dict[Key, tuple[str, Shape]] = {}
        self.tried_after: dict[Key, str] = {}
        """Call → digest of it and of the calls that had worked before its first run."""
        self.worked_after: set[str] = set()
        """Of each successful run the digest of its call and of those that had worked before: what the tool's state came from."""
        self.exists: set[str] = set()
        """The existing tools."""

    def take(self, event: TraceEvent) -> None:
        """Read the next event. Raises ValueError for a request that continues another one than the trace holds."""
        if isinstance(event, ModelExchange):
            self._exchange(event)
        elif isinstance(event, ToolRun):
            self._run(event)

    def _exchange(self, event: ModelExchange) -> None:
        previous = self.shown.get((event.role, event.scope), ())
        if not 0 <= event.same <= len(previous):
            raise ValueError(f"same: {event.same} of {len(previous)} messages")
        messages = (*previous[: event.same], *event.messages)
        self.shown[event.role, event.scope] = messages
        attempt = Attempt(
            event.role,
            event.scope,
            messages,
            Reply(event.reply or "", event.native_calls),
            event.seconds,
            event.tokens[0] if event.tokens else None,
            forced=event.tool_choice not in (None, "auto", "none"),
            wire_error=event.wire_error,
        )
        if event.error is not None:
            attempt.error, attempt.error_text = event.error
        else:
            self._move(attempt, event)
        last = next((a for a in reversed(self.attempts) if (a.role, a.scope) == (attempt.role, attempt.scope)), None)
        new = attempt.messages[-1:] if last is not None else ()
        if last is not None and new and len(new[0].content) < MAX_HINT_CHARS:
            for call in last.calls:
                if not call.runs:
                    call.hint = hint_of(new[0].content)
        self.attempts.append(attempt)

    def _move(self, attempt: Attempt, event: ModelExchange) -> None:
        if event.move is None:
            return
        attempt.states = event.move_kind
        stated = event.value if event.move_kind == "answer" else event.move.get("text")
        attempt.is_plain = not attempt.reply.calls and isinstance(stated, str) and stated.strip() == attempt.reply.text.strip()
        attempt.calls = [stated_call(call, self.returned) for call in event.calls]
        if attempt.role == DECIDE:
            self._recalled(attempt)
        earlier = [self.results.get(call.key) for call in attempt.calls]
        if earlier and all(result is not None for result in earlier):
            text = "\n".join(message.content for message in attempt.messages)
            attempt.repeats = all(stands_in(result or "", text) for result in earlier)

    def _recalled(self, attempt: Attempt) -> None:
        """Note which results the request shows, and which of their calls is made again."""
        text = "\n".join(message.content for message in attempt.messages)
        shown_results = {key: behind for key, result in self.results.items() if (behind := _behind(result, text)) is not None}
        attempt.distances = tuple(distance(behind) for behind in shown_results.values())
        places = [place for place, key in enumerate(shown_results) if any(call.key == key for call in attempt.calls)]
        if places:
            attempt.again = "last" if places[0] == len(shown_results) - 1 else "earlier"

    def _run(self, event: ToolRun) -> None:
        call = stated_call(event.call)
        error = "" if event.ok else event.error_type or "Error"
        stated = self._stated(call.key)
        if stated is not None:
            stated.runs.append(error)
            stated.last_error = f"{error} {event.data}" if error else ""
            stated.hint = "decision.unknown_tool" if error == "UnknownTool" else hint_of(event.data) if error in NEVER_RAN else ""
        if error != "UnknownTool":
            self.exists.add(call.tool)
        if error in NEVER_RAN:
            return
        self.returned.append(event.data)
        after = digest([call.key, sorted(self.results.keys() - {call.key})])[:_DIGEST_CHARS]
        self.tried_after.setdefault(call.key, after)
        if not error:
            self.worked_after.add(after)
        self.runs.setdefault(call.key, []).append(error)
        self.made[call.key] = (call.tool, call.shape)
        if not error:
            self.results[call.key] = event.data[:_COMPARED]

    def _stated(self, key: Key) -> StatedCall | None:
        """Return the call that a run belongs to: in a scope's latest reply one that still waits, else one that was tried again."""
        latest: dict[str, Attempt] = {}
        for attempt in self.attempts:
            if attempt.calls:
                latest[attempt.scope] = attempt
        matching = [call for attempt in reversed(latest.values()) for call in attempt.calls if call.key == key]
        return next((call for call in matching if not call.runs), next(iter(matching), None))

    def troubles(self) -> Iterator[ToolTrouble]:
        """Yield the calls whose first run failed."""
        for key, runs in self.runs.items():
            strikes = next((n for n, error in enumerate(runs) if not error), len(runs))
            if strikes:
                tool, shape = self.made[key]
                yield ToolTrouble(tool, shape, runs[0], strikes, strikes < len(runs), self.tried_after[key])


_DIGEST_CHARS = 16
_COMPARED = 80
"""Number of characters of a result to search for in a prompt."""


def _points(attempts: Sequence[Attempt]) -> tuple[list[DecisionPoint], int]:
    """Sort attempts into points; return them and the number of calls after the first of their move.

    Like in the tunnel, roles without calls have one point per trial and scope, and `recover` has one per failed call.
    """
    points: list[DecisionPoint] = []
    current: dict[tuple[str, ...], DecisionPoint] = {}
    first_calls: set[Key] = set()
    extra, failed_call = 0, ""
    any_calling = False
    for attempt in attempts:
        if attempt.error in SETTLED:
            continue
        calling = attempt.role in CALLING
        place = (attempt.role, attempt.scope, failed_call if attempt.role == "recover" else "")
        point = current.get(place)
        if point is None or (calling and not (point.attempts[-1].failed and attempt.tries_again(point.attempts[-1]))):
            point = current[place] = DecisionPoint(attempt.role, calling and not any_calling, [])
            points.append(point)
            any_calling = any_calling or calling
        point.attempts.append(attempt)
        extra += len({call.key for call in attempt.calls[1:]} - first_calls)
        first_calls |= {call.key for call in attempt.calls}
        failed_call = next((str(call.key) for call in attempt.calls if call.failed), failed_call)
    return points, extra


def _behind(result: str, text: str) -> int | None:
    """Return how many characters of a prompt stand behind the beginning of a result's last showing; None if it is not shown."""
    place = max(text.rfind(result), text.rfind(json.dumps(result, ensure_ascii=False)[1:-1]))
    return None if place < 0 or not result else len(text) - place - len(result)
