"""The runs of a trial's tools beside the calls that its model wrote: which run is of which call, and which is of none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whichloop.metrics.trace import ModelExchange, ToolRun, TracedCall, TraceEvent
from whichloop.protocol import Role

from .trajectory import CHOOSING


@dataclass(frozen=True, slots=True, eq=False)
class WrittenCall:
    """A call as the model wrote it."""

    call: TracedCall
    by: ModelExchange
    event: int


@dataclass(frozen=True, slots=True)
class MatchedRun:
    """A run, and what the model wrote of it."""

    event: int
    """Its place in the trace's events."""
    run: ToolRun
    stands_for: WrittenCall | None = None
    """The call of the last replies that ran: the same one, or the one in whose place the loop made it; None: it stands for none."""
    is_allowed_by_itself: bool = False
    """The loop may make such a run by itself: the call had failed, or the last reply was about one that did."""
    was_written: bool = False
    """The model has written the very call, then or earlier."""
    before: ToolRun | None = None
    """The last run of the same call before."""

    @property
    def is_as_written(self) -> bool:
        """Whether the call ran as the model wrote it for this run."""
        if self.stands_for is not None:
            return self.stands_for.call.key == self.run.call.key
        return self.is_allowed_by_itself and self.was_written


@dataclass(slots=True)
class Matching:
    """Runs and the calls that the model wrote, matched in time."""

    runs: list[MatchedRun] = field(default_factory=list)
    passed_over: list[WrittenCall] = field(default_factory=list)
    """Calls that the loop went on without."""
    last: dict[str, ToolRun] = field(default_factory=dict)
    """Key → the last run of the call."""
    _waiting: dict[str, list[WrittenCall]] = field(default_factory=dict)
    """Scope → calls of its last reply that did not run yet."""
    _written: set[str] = field(default_factory=set)
    """Keys of all calls that the model wrote so far."""
    _since_reply: set[str] = field(default_factory=set)
    """Keys of the calls that ran after the last deciding reply."""
    _is_recovering: bool = False
    """The last reply was about a failed call; what the loop then does is its own."""

    @classmethod
    def of(cls, events: Sequence[TraceEvent]) -> Matching:
        """Match all runs of a trial."""
        matching = cls()
        for place, event in enumerate(events):
            if isinstance(event, ModelExchange):
                matching._note_reply(place, event)
            elif isinstance(event, ToolRun):
                matching.runs.append(matching._matched(events, place, event))
        return matching

    @property
    def waiting(self) -> list[WrittenCall]:
        """The calls of the last replies that have not run yet; once all events are matched, those that never ran for them."""
        return [each for calls in self._waiting.values() for each in calls]

    def _note_reply(self, place: int, ask: ModelExchange) -> None:
        calls = [WrittenCall(call, ask, place) for call in ask.calls]
        self._written.update(call.key for call in (*ask.calls, *_recovering(ask)))
        self._is_recovering = ask.role == Role.RECOVER.value
        if self._is_recovering:
            self._waiting.clear()
        if ask.role in CHOOSING:
            self._since_reply.clear()
            if ask.scope:
                self.passed_over += self._waiting.pop(ask.scope, [])
            else:  # scopes are parts that run at once: a request outside of all comes after them
                self.passed_over += self.waiting
                self._waiting.clear()
        self._waiting.setdefault(ask.scope, []).extend(calls)

    def _matched(self, events: Sequence[TraceEvent], place: int, run: ToolRun) -> MatchedRun:
        key, before = run.call.key, self.last.get(run.call.key)
        is_retry = before is not None and not before.gave_result and key in self._since_reply
        was_written = key in self._written
        self.last[key] = run
        self._since_reply.add(key)
        same = [each for each in self.waiting if each.call.key == key]
        run_later = frozenset[str]() if same else _run_before_next_reply(events, place)
        open_calls = [each for each in self.waiting if each.call.key not in run_later]
        meant = same or [each for each in open_calls if each.call.tool == run.call.tool] or open_calls
        is_allowed = not same and (self._is_recovering or (is_retry and (was_written or not meant)))
        stands_for = None if is_allowed or not meant else meant[0]
        if stands_for is not None:
            self._take(stands_for)
        return MatchedRun(place, run, stands_for, is_allowed, was_written, before)

    def _take(self, written: WrittenCall) -> None:
        for calls in self._waiting.values():
            if written in calls:
                calls.remove(written)


def tells_what_was_read(events: Sequence[TraceEvent]) -> bool:
    """Whether a trace says what every deciding reply was read as."""
    return all(ask.move_kind or ask.wire_error is not None or ask.error is not None for ask in _deciding(events))


def runs_not_as_written(events: Sequence[TraceEvent]) -> frozenset[int]:
    """Return the events of the runs whose calls the model did not write so for them; none where the trace does not say what it
    wrote."""
    if not any(_deciding(events)) or not tells_what_was_read(events):
        return frozenset()
    return frozenset(matched.event for matched in Matching.of(events).runs if not matched.is_as_written)


def _deciding(events: Sequence[TraceEvent]) -> Iterator[ModelExchange]:
    return (event for event in events if isinstance(event, ModelExchange) and event.role in CHOOSING)


def _recovering(ask: ModelExchange) -> Iterator[TracedCall]:
    """Return the call that a recovery names."""
    call = ask.move.get("call") if ask.move is not None and ask.move_kind == "recovery" else None
    if isinstance(call, Mapping) and isinstance(call.get("name"), str):
        yield TracedCall(call["name"], call.get("arguments"))


def _run_before_next_reply(events: Sequence[TraceEvent], place: int) -> frozenset[str]:
    """Return keys of the calls that still run for the same reply after an event."""
    keys = set()
    for event in events[place + 1 :]:
        if isinstance(event, ModelExchange) and event.role in CHOOSING and not event.scope:
            break
        if isinstance(event, ToolRun):
            keys.add(event.call.key)
    return frozenset(keys)
