"""The course of a trial: what was decided and what came of it, whatever the loop's wire format and bookkeeping.

Two designs that do the same thing in other words, in other formats, with more or fewer calls for planning and reflecting have the
same course: tool calls with their results, replies that could not be read, failures of the provider, and the end. Each step has a
signature of six hex digits, so that a whole course fits in a short line and two of them can be compared without their traces.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from loopbench.protocol import Role, render_value
from loopbench.protocol.digest import canonical_json, sha256

Kind = Literal["call", "unreadable", "failed", "answer", "other"]

NOT_RUN = "not run"
"""What came of a call that no tool has run: its tool does not exist, its arguments do not fit, or the loop passed over it."""
CHOOSING = frozenset({Role.DECIDE.value, Role.SELECT.value})
"""Roles whose replies are calls, or the answer: the same question in designs that ask it once and in those that ask by task."""
DECIDING = "decide"
"""What a step says of all choosing roles."""
SIGNATURE_CHARS = 6
MAX_TEXT = 120
"""Characters of a call, or of what came of it, in a step's text."""

RECEIPT = re.compile(r" ?(\[r:[0-9a-f]{6}\.[0-9a-f]{4}\])")
"""What a scripted run's tools end their results with; no part of what the tool gave."""
GARBAGE = "tool.garbage"
"""Kind of a fault after which a tool's status says success, and nothing came."""

_NEVER_RAN = frozenset({"UnknownTool", "InvalidArguments"})


@dataclass(frozen=True)
class TracedCall:
    """A tool and its arguments."""

    tool: str
    arguments: Any

    @cached_property
    def key(self) -> str:
        """Equal for equal calls, in whatever order the arguments were given."""
        return _canonical([self.tool, self.arguments])

    @property
    def text(self) -> str:
        """`add(a=1, b=2)`, short."""
        given = self.arguments
        if not isinstance(given, Mapping):
            return shortened(f"{self.tool}({render_value(given)})")
        return shortened(f"{self.tool}({', '.join(f'{name}={_shown(value)}' for name, value in given.items())})")


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One thing that was decided, and what came of it."""

    kind: Kind
    text: str
    """Short: `add(a=1, b=2)`, `decide`, the answer."""
    observed: str
    """What came of it: the result, the error, the stop."""
    signature: str
    """Six hex digits of both in full."""
    event: int | None = field(default=None, compare=False)
    """Index in the trace's events, in the order in which they happened; None for the end."""
    call: TracedCall | None = field(default=None, compare=False)
    """What was called."""
    gave: bool = field(default=False, compare=False)
    """The call gave a result."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to the model and what came of it."""

    number: int
    """1-based among the trial's requests, as `loopbench show` counts them."""
    role: str
    scope: str
    same: int
    """How many messages the last request of this role and scope has shown already."""
    messages: tuple[str, ...]
    """The texts of the others, their native calls included."""
    fault: str
    """Kind of the fault that the reply suffered; empty: none."""
    wire_error: str | None
    """Why the reply could not be read; None: it could."""
    error: tuple[str, str] | None
    """Kind and message of a failure that came in the reply's place."""
    move: str
    """`act`, `answer`, `text`, …; empty where no move was read."""
    calls: tuple[TracedCall, ...]
    """Of an act."""
    value: Any
    """Of an answer."""
    reply: str
    """As it came, its native calls below its text."""

    @property
    def group(self) -> str:
        """Its role; the choosing ones are one."""
        return DECIDING if self.role in CHOOSING else self.role


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A tool's run."""

    call: TracedCall
    ok: bool
    error_type: str
    data: str
    """As the loop got it."""
    fault: str

    @property
    def never_ran(self) -> bool:
        return self.error_type in _NEVER_RAN

    @property
    def gave(self) -> bool:
        """Whether it gave a result: a fault may leave a success with nothing in it."""
        return self.ok and self.fault != GARBAGE

    @property
    def result(self) -> str:
        """What the tool gave, without a scripted run's receipt."""
        return without_receipts(self.data)


Event = ModelRequest | TracedRun | None
"""None: a note of the loop's own."""


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """How a trial ended."""

    answer: Any
    stop: str | None


def events(trace: Mapping[str, Any]) -> tuple[Event, ...]:
    """The trace's events, each in its place. Raises ValueError that names the first one that is none."""
    listed = trace.get("events")
    if not isinstance(listed, list):
        raise ValueError("the trace has no list of events")
    number = itertools.count(1)
    return tuple(_event(place, event, number) for place, event in enumerate(listed))


def end(trace: Mapping[str, Any]) -> TraceEnd:
    """Raises ValueError where the stop is no text."""
    stop = trace.get("stop")
    if stop is not None and not isinstance(stop, str):
        raise ValueError("the trace's stop is no text")
    return TraceEnd(trace.get("answer"), stop)


def course(trace: Mapping[str, Any]) -> tuple[TracedStep, ...]:
    """The steps of one trial, its end the last.

    What may happen at once, tools' runs and requests with a scope, stands in the order of scopes and of the calls in their replies:
    the order in which it ended says nothing. Raises ValueError for what is no trace.
    """
    return steps(events(trace), end(trace))


def steps(happened: Sequence[Event], ended: TraceEnd) -> tuple[TracedStep, ...]:
    """As `course`, of events that are read already."""
    found: list[_Found] = []
    turn: list[_Found] = []
    for item in _attributed(happened):
        if not item.at_once:
            found.extend(_in_order(turn))
            turn = []
        turn.append(item)
    found.extend(_in_order(turn))
    return (*(item.step for item in found if item.kind is not None), _last(ended))


def signatures(line: str) -> tuple[str, ...]:
    """Those of a course that was written down as one line, with spaces between."""
    return tuple(line.split())


def unmatched(other: Sequence[str], own: Sequence[str]) -> frozenset[int]:
    """Places in `own` of the signatures that have no counterpart in `other`, in whatever order they stand there."""
    left = Counter(other)
    places = set()
    for place, signature in enumerate(own):
        if left[signature] > 0:
            left[signature] -= 1
        else:
            places.add(place)
    return frozenset(places)


def without_receipts(text: str) -> str:
    """The text as the tool gave it."""
    return RECEIPT.sub("", text)


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """In one line, its middle left out where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most * 2 // 3]}…{line[-most // 3 :]}"


# --- reading ---


def _event(place: int, event: Any, number: Iterator[int]) -> Event:
    if not isinstance(event, Mapping):
        raise ValueError(f"event {place} of the trace is no object")
    kind = event.get("event")
    try:
        if kind == "ask":
            return _ask(event, next(number))
        if kind == "tool":
            return _ran(event)
    except _Wrong as wrong:
        raise ValueError(f"event {place} of the trace: {wrong}") from None
    return None


class _Wrong(ValueError):
    """A field that is missing or of another type."""


def _get(event: Mapping[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    value = event.get(name, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Wrong(f"{name} is {'missing' if name not in event else f'no {kind.__name__}'}")
    return value


def _ask(event: Mapping[str, Any], number: int) -> ModelRequest:
    error = event.get("error")
    if error is not None and not isinstance(error, Mapping):
        raise _Wrong("error is no object")
    move = _get(event, "move", Mapping, {})
    listed = _get(move, "calls", list, []) if move.get("move") == "act" else []
    return ModelRequest(
        number=number,
        role=_get(event, "role", str, None),
        scope=_get(event, "scope", str, ""),
        same=_get(event, "same", int, 0),
        messages=tuple(_message(message) for message in _get(event, "messages", list, None)),
        fault=_get(event, "fault", str, ""),
        wire_error=_get(event, "wire_error", str, "") if "wire_error" in event else None,
        error=None if error is None else (_get(error, "kind", str, None), _get(error, "message", str, "")),
        move=_get(move, "move", str, None) if move else "",
        calls=tuple(_call(call) for call in listed),
        value=move.get("value"),
        reply="\n".join([_get(event, "reply", str, ""), *map(_native, _get(event, "calls", list, []))]).strip("\n"),
    )


def _message(message: Any) -> str:
    if not isinstance(message, Mapping):
        raise _Wrong("a message is no object")
    text: str = _get(message, "content", str, "")
    for call in _get(message, "tool_calls", list, []):
        text += f"\n{_native(call.get('function') if isinstance(call, Mapping) else None)}"
    return text


def _native(call: Any) -> str:
    if not isinstance(call, Mapping):
        raise _Wrong("a native call is no object")
    return f"{call.get('name')} {call.get('arguments')}"


def _call(call: Any) -> TracedCall:
    if not isinstance(call, Mapping):
        raise _Wrong("a call is no object")
    return TracedCall(_get(call, "name", str, None), call.get("arguments"))


def _ran(event: Mapping[str, Any]) -> TracedRun:
    return TracedRun(
        call=TracedCall(_get(event, "tool", str, None), event.get("arguments")),
        ok=_get(event, "status", str, None) == "success",
        error_type=_get(event, "error_type", str, ""),
        data=_get(event, "data", str, ""),
        fault=_get(event, "fault", str, ""),
    )


# --- steps ---


@dataclass(frozen=True, slots=True, order=True)
class _Slot:
    """Where a call was decided on: what is at once is put in this order."""

    scope: tuple[tuple[int, str], ...] = ()
    reply: int = 0
    """Of the scope's choosing replies."""
    place: int = 0
    """Among the reply's calls."""


@dataclass(slots=True, eq=False)
class _Found:
    """A step before its place is known; without a kind: a request that is no step, and only parts the turns."""

    at_once: bool
    event: int
    slot: _Slot
    kind: Kind | None = None
    content: str = ""
    text: str = ""
    observed: str = ""
    call: TracedCall | None = None
    gave: bool = False

    @property
    def step(self) -> TracedStep:
        assert self.kind is not None
        return TracedStep(self.kind, self.text, self.observed, _signature(self.content), self.event, self.call, self.gave)


def _attributed(happened: Sequence[Event]) -> list[_Found]:
    """All that happened, in time; tools' runs with the reply that decided on them, and calls that no tool has run."""
    found: list[_Found] = []
    replies = Counter[str]()
    waiting: dict[str, list[_Found]] = {}
    """Scope → calls that were decided on and that no tool has run yet."""
    slots: dict[str, _Slot] = {}
    """Of the last run of each call: the loop may run it again by itself."""
    last_work = max((place for place, event in enumerate(happened) if _is_work(event)), default=-1)
    for place, event in enumerate(happened):
        if isinstance(event, ModelRequest):
            chooses = event.role in CHOOSING
            replies[event.scope] += chooses
            slot = _Slot(_natural(event.scope), replies[event.scope])
            found.append(_of_ask(event, place, slot, goes_on=place < last_work))
            if not event.scope:  # what was at once is over
                waiting = {} if chooses else {"": waiting.get("", [])}
            if chooses:
                decided = [_of_call(call, None, place, replace(slot, place=number)) for number, call in enumerate(event.calls, 1)]
                waiting.setdefault(event.scope, []).extend(decided)
                found.extend(decided)
        elif isinstance(event, TracedRun):
            taken = _take(event.call, waiting)
            if taken is not None:
                found.remove(taken)
            slot = taken.slot if taken is not None else slots.get(event.call.key, _UNDECIDED)
            slots[event.call.key] = slot
            found.append(_of_call(event.call, event, place, slot))
    return found


def _is_work(event: Event) -> bool:
    return isinstance(event, TracedRun) or (isinstance(event, ModelRequest) and event.role in CHOOSING)


def _natural(scope: str) -> tuple[tuple[int, str], ...]:
    """A scope as it is sorted: numbers within it as numbers, c2 before c10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", scope) if part)


_UNDECIDED = _Slot(((1 << 62, ""),))
"""Of a run that no reply has decided on: the last."""


def _take(call: TracedCall, waiting: Mapping[str, list[_Found]]) -> _Found | None:
    """The waiting call that a run is of: the same, else one of the same tool, whose arguments the loop has changed."""
    every = [item for items in waiting.values() for item in items]
    same = [item for item in every if item.call is not None and item.call.key == call.key]
    same = same or [item for item in every if item.call is not None and item.call.tool == call.tool]
    if not same:
        return None
    taken = min(same, key=lambda item: item.slot)
    for items in waiting.values():
        if taken in items:
            items.remove(taken)
    return taken


def _in_order(turn: list[_Found]) -> list[_Found]:
    """The steps of one turn by their slots; equal calls of several slots, whose runs cannot be told apart, by what came of them."""
    by_call: dict[str, list[_Found]] = {}
    for item in turn:
        if item.call is not None:
            by_call.setdefault(item.call.key, []).append(item)
    for equal in by_call.values():
        slots = sorted(item.slot for item in equal)
        if slots[0] != slots[-1]:
            for item, slot in zip(sorted(equal, key=lambda item: item.content), slots, strict=True):
                item.slot = slot
    return sorted(turn, key=lambda item: (item.at_once, item.slot, item.content if item.slot == _UNDECIDED else ""))


def _of_ask(ask: ModelRequest, place: int, slot: _Slot, *, goes_on: bool) -> _Found:
    """`goes_on`: there were further decisions or runs; an answer before them was none."""
    made = _Found(bool(ask.scope), place, slot)
    if ask.error is not None:
        kind, message = ask.error
        made.kind, made.content = "failed", _canonical(["failed", ask.group, kind])
        made.text, made.observed = ask.group, f"{kind}: {shortened(message)}"
    elif ask.wire_error is not None:
        made.kind, made.content = "unreadable", _canonical(["unreadable", ask.group])
        made.text, made.observed = ask.group, shortened(ask.wire_error)
    elif ask.role == DECIDING and ask.move == "text":
        made.kind, made.content = "other", _canonical(["text"])
        made.text, made.observed = "no call", shortened(ask.reply)
    elif ask.role in CHOOSING and ask.move == "answer" and goes_on:
        made.kind, made.content = "other", _canonical(["stated", render_value(ask.value)])
        made.text, made.observed = f"answer {shortened(render_value(ask.value))}", "the run went on"
    return made


def _of_call(call: TracedCall, ran: TracedRun | None, place: int, slot: _Slot) -> _Found:
    observed = NOT_RUN
    came: list[object] = [NOT_RUN]
    if ran is not None:
        failed = ran.error_type or "error"
        observed = shortened(ran.result) if ran.ok else f"{failed}: {shortened(ran.result)}"
        came = came if ran.never_ran else [ran.ok, ran.error_type, ran.result]
    content = _canonical(["call", call.tool, call.arguments, *came])
    return _Found(True, place, slot, "call", content, call.text, observed, call, ran is not None and ran.gave)


def _last(ended: TraceEnd) -> TracedStep:
    answer = render_value(ended.answer)
    content = _canonical(["end", answer, ended.stop])
    return TracedStep("answer", shortened(answer), ended.stop or "", _signature(content))


def _signature(content: str) -> str:
    return sha256(content)[:SIGNATURE_CHARS]


def _canonical(value: Any) -> str:
    """Canonical JSON; what JSON cannot say as text."""
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):  # NaN, a depth that is read but not written
        return render_value(value)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else render_value(value)
