"""What went wrong in a trial and was not put right: read off its trace, for any design."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, TypeVar

from whichloop.metrics.record import Record
from whichloop.protocol import Role, StopReason
from whichloop.protocol.receipts import strip_receipts

from ..trace import ModelExchange, ToolRun, Trace, TraceEvent, TraceHead
from .trajectory import CHOOSING, WORD, Prompt, TracedStep, group, new_words, prompts, shows, unmatched

Kind = Literal["unreadable", "unfit", "misread", "request", "failed run", "not run", "repeated", "no call"]
Fact = TypeVar("Fact")

WRONG_CALLS = {
    "decision.wrong_value": "a wrong value",
    "decision.missing_argument": "an argument missing",
    "decision.extra_argument": "an argument that the tool does not have",
    "decision.wrong_type": "a value of the wrong type",
    "decision.unknown_tool": "a tool's name that does not exist",
    "weakness.unit": "a value in the wrong unit",
    "weakness.date": "a date the wrong way round",
}
"""Kinds of faults that are a wrong call, in words."""
NEVER_FINISH = "decision.never_finish"
ANSWER = "answer"
"""Point of a fault where no call was due."""
OVERLOOKED = frozenset({"decision.forget", "decision.repeated_call", NEVER_FINISH})
"""Kinds of faults by which a call is made again."""
PLANNING = frozenset({*CHOOSING, Role.PLAN.value, Role.REFLECT.value, Role.REASON.value})
"""Roles whose prompts decide on what is called next."""


@dataclass(frozen=True)
class TracedTrial:
    """One trial as its trace tells it, and the other course that it is held against."""

    trace: Trace
    course: Sequence[TracedStep]
    record: Record
    other: Sequence[str] = ()
    """Signatures of the other course; empty: there is none."""
    other_course: Sequence[TracedStep] = ()
    """The other course itself, where more than its signatures is known."""
    limit: int | None = None
    """The step limit that was set for a loop which may end by itself before it; None where none was, or where nobody knows."""
    memory: dict[Callable[[TracedTrial], Any], Any] = field(default_factory=dict, compare=False, repr=False)
    """What `once` has read: the same against any other course."""

    def against(self, other: Sequence[TracedStep]) -> TracedTrial:
        """Return the same trial held against the course of another."""
        return replace(self, other=[step.signature for step in other], other_course=other)

    @property
    def events(self) -> Sequence[TraceEvent]:
        return self.trace.events

    @property
    def head(self) -> TraceHead:
        return self.trace.head

    @property
    def is_finished(self) -> bool:
        return self.head.stop == StopReason.FINISHED

    def once(self, read: Callable[[TracedTrial], Fact]) -> Fact:
        """Return what a function reads off the trace and the record alone; it is called once, whatever the other course is."""
        if read not in self.memory:
            self.memory[read] = read(self)
        fact: Fact = self.memory[read]
        return fact

    @property
    def is_scripted(self) -> bool:
        """A scripted model's trial: its faults are marked, its results carry receipts."""
        return self.once(_is_scripted)

    @property
    def prompts(self) -> list[Prompt]:
        return self.once(_prompts)

    def is_shown(self, run: ToolRun, place: int) -> bool:
        """Whether the prompt of a request, at an event, shows what a run gave."""
        event = self.events[place]
        return shows(self.prompts[place], run.data, event.illegible if isinstance(event, ModelExchange) else ())

    @cached_property
    def unmatched(self) -> frozenset[int]:
        """Places in the course of steps without a counterpart in the other one; all where there is none."""
        return unmatched(self.other, [step.signature for step in self.course])

    @cached_property
    def setbacks(self) -> Sequence[Setback]:
        """What went wrong and was not put right afterwards, in time."""
        candidates = [*of_replies(self), *of_calls(self)]
        return sorted((setback for setback in candidates if _stands(self, setback)), key=lambda setback: setback.event)

    @property
    def repeated(self) -> frozenset[int]:
        """Events of runs of a call that had given a result before, whatever they gave: a second booking may be refused."""
        return self.once(_repeated)

    @property
    def last_new(self) -> int:
        """TraceEvent of the last run that gave something new; -1 where none did."""
        return self.once(_last_new)

    def asks(self, since: int = -1) -> Iterator[tuple[int, ModelExchange]]:
        """Yield the requests after an event, each with its place."""
        exchanges = self.once(_asked)
        return iter(exchanges[bisect_right(exchanges, since, key=itemgetter(0)) :])

    @property
    def last_ask(self) -> tuple[int, ModelExchange] | tuple[None, None]:
        """The last request, with its event."""
        exchanges = self.once(_asked)
        return exchanges[-1] if exchanges else (None, None)

    @property
    def steps_left(self) -> int:
        """How many steps before its limit the loop ended, though it says that it reached it; 0 where it did, or nobody knows.

        A loop may count its replies or its calls: the larger number counts.
        """
        if self.limit is None or self.head.stop != StopReason.MAX_STEPS:
            return 0
        return max(0, self.limit - max(self.record.steps, self.record.tool_calls))

    @property
    def replies(self) -> int:
        """How many requests the trial made in all."""
        _, last = self.last_ask
        return 0 if last is None else last.number

    def decider(self, place: int) -> ModelExchange | None:
        """Return the reply that decided on what happened at an event: itself, or the last that made the call, or that could
        have."""
        return self.once(_deciders)[place]

    def is_open(self, kind: str, role: str = "", *, calls_only: bool = False) -> bool:
        """Whether the record has a fault of this kind, at a point of this role, that landed and was not put right.

        `calls_only`: at a planned call, not where there was none to decide on.
        """
        standing = (fault for fault in self.record.faults if fault.landed and not (fault.absorbed or fault.recovered))
        points = (fault.point.partition(":") for fault in standing if fault.kind == kind)
        return any(role in ("", at) and not (calls_only and call == ANSWER) for at, _, call in points)


# --- what the trace alone says ---


def _is_scripted(trial: TracedTrial) -> bool:
    runs = (event for event in trial.events if isinstance(event, ToolRun))
    of_model = any(not fault.kind.startswith(("tool.", "mcp.", "provider.")) for fault in trial.record.faults)
    return of_model or trial.record.plan_unseen or any(strip_receipts(run.data) != run.data for run in runs)


def _prompts(trial: TracedTrial) -> list[Prompt]:
    return prompts(trial.events)


def _asked(trial: TracedTrial) -> list[tuple[int, ModelExchange]]:
    return [(place, event) for place, event in enumerate(trial.events) if isinstance(event, ModelExchange)]


def _repeated(trial: TracedTrial) -> frozenset[int]:
    runs = [(place, event) for place, event in enumerate(trial.events) if isinstance(event, ToolRun)]
    first = {event.call.key: place for place, event in reversed(runs) if event.gave_result}
    return frozenset(place for place, event in runs if first.get(event.call.key, place) < place)


def _last_new(trial: TracedTrial) -> int:
    runs = [(place, event) for place, event in enumerate(trial.events) if isinstance(event, ToolRun) and event.gave_result]
    first = {(event.call.key, event.result): place for place, event in reversed(runs)}
    return max(first.values(), default=-1)


def _deciders(trial: TracedTrial) -> list[ModelExchange | None]:
    deciders: list[ModelExchange | None] = []
    by_call: dict[str, ModelExchange] = {}
    last: ModelExchange | None = None
    for event in trial.events:
        if isinstance(event, ModelExchange):
            deciders.append(event)
            if event.role in CHOOSING:
                last = event
                by_call.update((call.key, event) for call in event.calls)
        else:
            deciders.append(by_call.get(event.call.key, last) if isinstance(event, ToolRun) else last)
    return deciders


# --- what went wrong ---


@dataclass(frozen=True, slots=True)
class Setback:
    """Something that went wrong."""

    kind: Kind
    event: int
    """Its event in the trace."""
    what: str
    """The call, or what was asked for."""
    why: str
    """What was said about it."""
    fault: str
    """Kind of the fault that the reply or the run suffered; empty: none is known."""


def setbacks(trial: TracedTrial, since: int) -> list[Setback]:
    """Return what went wrong after an event and was not put right afterwards, in time."""
    return [setback for setback in trial.setbacks if setback.event > since]


def _stands(trial: TracedTrial, setback: Setback) -> bool:
    """Whether the record, where it knows the fault, says that it was never put right; what was done twice is done."""
    event = trial.events[setback.event]
    if setback.kind == "repeated" or all(fault.kind != setback.fault for fault in trial.record.faults):
        return True
    return trial.is_open(setback.fault, event.role if isinstance(event, ModelExchange) else "")


def of_replies(trial: TracedTrial, *, every: bool = False) -> Iterator[Setback]:
    """Yield what went wrong with replies; `every`: also where it was put right."""
    for place, ask in trial.asks():
        if ask.wire_error is not None and (every or not _was_read(trial, place, ask)):
            kind: Kind = "unfit" if trial.is_scripted and not ask.fault else "unreadable"
            yield Setback(kind, place, group(ask), ask.wire_error, ask.fault)
        elif ask.fault.startswith("wire.") and ask.role in CHOOSING and trial.is_open(ask.fault, ask.role, calls_only=True):
            yield Setback("misread", place, group(ask), ask.reply_text, ask.fault)
        elif ask.error is not None and not any(_same_request(ask, later) and later.error is None for _, later in trial.asks(place)):
            yield Setback("request", place, group(ask), ": ".join(ask.error), ask.fault)
        elif ask.role == Role.DECIDE and ask.move_kind == "text":
            yield Setback("no call", place, group(ask), ask.reply_text, ask.fault)


def _was_read(trial: TracedTrial, place: int, ask: ModelExchange) -> bool:
    """Whether the loop got past a reply that it could not read.

    By a later one to the same request; of requests that are sent for one task each, by one that makes a call, unless a fault is
    known to have stayed; of those that only keep the books, by going on at all.
    """
    for _, later in trial.asks(place):
        if ask.role not in CHOOSING:
            return True
        if group(later) == group(ask) and later.move_kind and (later.scope == ask.scope or (later.calls and not ask.fault)):
            return True
    return False


def _same_request(one: ModelExchange, other: ModelExchange) -> bool:
    return (one.role, one.scope) == (other.role, other.scope)


def of_calls(trial: TracedTrial, *, every: bool = False) -> Iterator[Setback]:
    """Yield what went wrong with calls; `every`: also where it was put right."""
    put_right = {step.call.key for step in trial.course if step.call is not None and step.gave_result and not every}
    keys_called: set[str] = set()
    for number, step in enumerate(trial.course):
        if step.call is None or step.event is None:
            continue
        was_made = step.call.key in keys_called
        keys_called.add(step.call.key)
        decider = trial.decider(step.event)
        mark = decider.fault if decider is not None else ""
        run = trial.events[step.event]
        if step.event in trial.repeated or (was_made and mark in OVERLOOKED and isinstance(run, ToolRun)):
            if mark in OVERLOOKED or number in trial.unmatched:
                yield Setback("repeated", step.event, step.text, step.observed, mark)
        elif not step.gave_result and step.call.key not in put_right and not _is_as_it_should_be(trial, number):
            kind: Kind = "failed run" if isinstance(run, ToolRun) and not run.never_ran else "not run"
            yield Setback(kind, step.event, step.text, step.observed, fault_of_call(trial, step.event))


def fault_of_call(trial: TracedTrial, place: int) -> str:
    """Return the kind of fault that a call suffered: of its run, else of the reply that decided on it; empty: none is known."""
    run, decider = trial.events[place], trial.decider(place)
    return (run.fault if isinstance(run, ToolRun) else "") or (decider.fault if decider is not None else "")


def _is_as_it_should_be(trial: TracedTrial, number: int) -> bool:
    """Return whether a failure is not an obstacle: it belongs to the task, as a search that finds nothing does.

    In a scripted trial what nobody injected belongs to it, as long as the model takes it as it is. Elsewhere what the other course
    has too, where that never had more of the same call.
    """
    step = trial.course[number]
    run = trial.events[step.event] if step.event is not None else None
    if not isinstance(run, ToolRun):
        return trial.is_finished or (trial.is_scripted and not _is_spoiled(trial, step))  # the loop finished in spite of it
    decider = trial.decider(step.event) if step.event is not None else None
    if run.fault or run.never_ran or (decider is not None and decider.fault in WRONG_CALLS):
        return False
    if trial.is_scripted and sum(other.signature == step.signature for other in trial.course) == 1:
        return True
    key = run.call.key
    others = [other for other in trial.other_course if other.call is not None and other.call.key == key]
    return number not in trial.unmatched and all(other.signature == step.signature for other in others)


def _is_spoiled(trial: TracedTrial, step: TracedStep) -> bool:
    """Whether a call was written under a fault, so that it may well be that no tool can run it."""
    decider = trial.decider(step.event) if step.event is not None else None
    return decider is not None and (decider.fault in WRONG_CALLS or decider.fault.startswith("wire."))


def unreadable_replies(trial: TracedTrial) -> list[int]:
    """Return the events of the replies that could not be read, put right or not."""
    return [place for place, ask in trial.asks() if ask.wire_error is not None]


def failed_calls(trial: TracedTrial) -> list[TracedStep]:
    """Return the calls that failed or could not be run and should not have, put right or not."""
    calls = ((number, step) for number, step in enumerate(trial.course) if step.call is not None and not step.gave_result)
    return [step for number, step in calls if not _is_as_it_should_be(trial, number)]


# --- what the loop did about it ---


def was_asked_again(trial: TracedTrial, setback: Setback) -> bool:
    """Whether the model was asked for anything more after it."""
    return any(ask.role in CHOOSING or group(ask) == setback.what for _, ask in trial.asks(setback.event))


def was_told(trial: TracedTrial, setback: Setback) -> bool:
    """Whether the model was told of it when it was next asked for the same; true where it never was."""
    decider = trial.decider(setback.event)
    asked = (place for place, later in trial.asks(setback.event) if decider is not None and _same_request(decider, later))
    return (place := next(asked, None)) is None or tells(trial, setback.event, place)


def tells(trial: TracedTrial, place: int, asked: int) -> bool:
    """Whether the prompt of a request tells, then or before, what went wrong at an event: a tool's error as it stands, or half of
    the words that it begins with; of a reply's any word, or anything where it is not known."""
    event = trial.events[place]
    decider = trial.decider(place)
    error = event.result if isinstance(event, ToolRun) else getattr(event, "wire_error", None) or ""
    if decider is None or (error and any(error in message for message in trial.prompts[asked])):
        return True
    before = next(at for at, ask in trial.asks() if ask is decider)
    new = new_words(trial.prompts[before], trial.prompts[asked], decider.reply_text)
    if isinstance(event, ToolRun):
        words = set(WORD.findall(error[:MIN_TOLD].lower()))
        return 2 * len(words & new.keys()) >= len(words) > 0
    words = {word for word in WORD.findall(error.lower()) if len(word) >= MIN_WORD_CHARS}
    return bool(words & new.keys() if words else new)


MIN_TOLD, MIN_WORD_CHARS = 40, 4
"""Characters of a tool's error that a design may show alone, and of a word that says something."""


def was_cut_out(trial: TracedTrial, place: int) -> bool:
    """Whether a run repeats one whose result no prompt showed any more that decided on it."""
    run = trial.events[place]
    assert isinstance(run, ToolRun)
    before = enumerate(trial.events[:place])
    runs = [
        (at, event) for at, event in before if isinstance(event, ToolRun) and event.call.key == run.call.key and event.gave_result
    ]
    if not runs:
        return False
    at, last = runs[-1]
    latest = {ask.role: asked for asked, ask in trial.asks(at) if asked < place and ask.role in PLANNING}
    return bool(latest) and not any(trial.is_shown(last, asked) for asked in latest.values())
