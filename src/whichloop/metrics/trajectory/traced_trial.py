"""One lost trial as its trace tells it, for any design: the view that the rules of `divergence` are asked about.

A trace keeps what the model wrote, as the loop's own codec reads it, and, apart from that, what was run, what the next prompt
showed and what the outcome states.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from operator import itemgetter
from typing import Literal, NamedTuple

from whichloop.metrics.record import Record
from whichloop.metrics.trace import GARBAGE, ModelExchange, Note, ToolRun, Trace, TracedCall, TraceEvent
from whichloop.protocol import Role, StopReason
from whichloop.protocol.receipts import strip_receipts

from .trajectory import CHOOSING, WORD, TracedStep, course, group, matched_runs, new_words, prompts, shows, unmatched

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
OVERLOOKED = frozenset({"decision.forget", "decision.repeated_call", NEVER_FINISH})
"""Kinds of faults by which a call is made again."""
PLANNING = frozenset({*CHOOSING, Role.PLAN.value, Role.REFLECT.value, Role.REASON.value})
"""Roles whose prompts decide on what is called next."""
MIN_SHOWN, MIN_TOLD, MIN_WORD_CHARS = 12, 40, 4
"""Characters of a result, and of a tool's error, that a design may show alone, and of a word that says something."""


class Setback(NamedTuple):
    """Something that went wrong at an event: `what` was called or asked for, `why` is what was said about it.

    `fault`: its kind; empty: none is known. `stands`: it was not put right afterwards.
    """

    kind: Literal["unreadable", "misread", "request", "failed run", "not run", "repeated", "no call"]
    event: int
    what: str
    why: str
    fault: str
    stands: bool


class TracedTrial:
    """One trial, and the other course that it is held against.

    `other`: signatures of that course; empty: there is none. `limit`: the step limit that was set for a loop which may end by
    itself before it; None where none was, or where nobody knows.
    """

    def __init__(self, trace: Trace, record: Record, other: Sequence[str] = (), limit: int | None = None) -> None:
        self.trace, self.record, self.limit = trace, record, limit
        self.events, self.head, self.stop = trace.events, trace.head, trace.head.stop
        self.is_finished = trace.head.stop == StopReason.FINISHED
        self.course = course(trace)
        self.prompts = prompts(trace.events)
        self.asks = [(place, event) for place, event in enumerate(trace.events) if isinstance(event, ModelExchange)]
        self.last_at = self.asks[-1][0] if self.asks else -1
        self.last = self.asks[-1][1] if self.asks else None
        self.runs = [(place, event) for place, event in enumerate(trace.events) if isinstance(event, ToolRun)]
        self.matched = matched_runs(trace.events)
        of_model = any(not fault.kind.startswith(("tool.", "mcp.", "provider.")) for fault in record.faults)
        # A scripted model's trial: its faults are marked, its results carry receipts.
        self.is_scripted = of_model or record.plan_unseen or any(strip_receipts(run.data) != run.data for _, run in self.runs)
        gave = [(place, run) for place, run in self.runs if run.gave_result]
        first = {run.call.key: place for place, run in reversed(gave)}
        # Runs of a call that had given a result before, whatever they gave: a second booking may be refused.
        self.repeated = {place for place, run in self.runs if first.get(run.call.key, place) < place}
        # The last run that gave something new.
        self.last_new = max({(run.call.key, run.result): place for place, run in reversed(gave)}.values(), default=-1)
        # How many steps before its limit the loop ended that says that it reached it, by its replies or by its calls.
        left = 0 if limit is None or self.stop != StopReason.MAX_STEPS else limit - max(record.steps, record.tool_calls)
        self.steps_left = max(0, left)
        self._deciders = _deciders(trace.events)
        self._hold(other)

    def _hold(self, other: Sequence[str], steps: Sequence[TracedStep] = ()) -> None:
        self.other, self.other_course = other, steps
        # Places in the course of steps without a counterpart in the other one; all where there is none.
        self.unmatched = unmatched(other, [step.signature for step in self.course])
        # The calls of the other course that this one never made, if their arguments can be read, and they gave a result.
        own = {step.call.key for step in self.course if step.call is not None}
        could = [step for step in steps if step.gave_result and step.call and isinstance(step.call.arguments, Mapping)]
        self.left_out = [step for step in could if step.call is not None and step.call.key not in own]
        self.setbacks = sorted([*_of_replies(self), *_of_calls(self)], key=lambda setback: setback.event)

    def against(self, other: Sequence[TracedStep]) -> TracedTrial:
        """Return the same trial held against the course of another."""
        held = copy(self)
        held._hold([step.signature for step in other], other)
        return held

    def asks_after(self, since: int) -> list[tuple[int, ModelExchange]]:
        return self.asks[bisect_right(self.asks, since, key=itemgetter(0)) :]

    def decider(self, place: int) -> ModelExchange | None:
        """Return the reply that decided on what happened at an event: itself, or the last that made the call, or that could
        have."""
        at = self._deciders[place]
        reply = None if at is None else self.events[at]
        return reply if isinstance(reply, ModelExchange) else None

    def number(self, place: int) -> int:
        """Return the number of the reply that decided on an event, as `whichloop show` counts them; 0 if it came from none."""
        decider = self.decider(place)
        return 0 if decider is None else decider.number

    def fault_of_call(self, place: int) -> str:
        """Return the kind of fault of a call's run, else of the reply that decided on it; empty: none is known."""
        run, decider = self.events[place], self.decider(place)
        return (run.fault if isinstance(run, ToolRun) else "") or (decider.fault if decider is not None else "")

    def is_open(self, kind: str, role: str = "", *, calls_only: bool = False) -> bool:
        """Whether the record has a fault of this kind, at a point of this role, that landed and was not put right.

        `calls_only`: at a planned call, not where there was none to decide on.
        """
        standing = (fault for fault in self.record.faults if fault.landed and not (fault.absorbed or fault.recovered))
        points = (fault.point.partition(":") for fault in standing if fault.kind == kind)
        return any(role in ("", at) and not (calls_only and call == "answer") for at, _, call in points)

    def damaged_source(self, place: int) -> TracedCall | None:
        """Return the call whose result was noise, of what this run was given as an argument; None where it was given none."""
        failed = self.events[place]
        if not isinstance(failed, ToolRun) or not isinstance(failed.call.arguments, Mapping):
            return None
        given = {value for value in failed.call.arguments.values() if isinstance(value, str)}
        return next(
            (run.call for at, run in self.runs if at < place and run.fault == GARBAGE and run.result.strip() in given), None
        )

    # --- what the loop told the model ---

    def is_shown(self, run: ToolRun, place: int) -> bool:
        """Whether the prompt of a request, at an event, shows what a run gave."""
        return shows(self.prompts[place], run.data, next(ask.illegible for at, ask in self.asks if at == place))

    def tells(self, place: int, asked: int) -> bool:
        """Whether the prompt of a request tells what went wrong at an event: a tool's error as it stands, or half of the words that
        it begins with; of a reply's any word, or anything where it is not known."""
        event, decider, before = self.events[place], self.decider(place), self._deciders[place]
        error = event.result if isinstance(event, ToolRun) else getattr(event, "wire_error", None) or ""
        if decider is None or before is None or (error and any(error in message for message in self.prompts[asked])):
            return True
        new = new_words(self.prompts[before], self.prompts[asked], decider.reply_text)
        if isinstance(event, ToolRun):
            words = set(WORD.findall(error[:MIN_TOLD].lower()))
            return 2 * len(words & new.keys()) >= len(words) > 0
        words = {word for word in WORD.findall(error.lower()) if len(word) >= MIN_WORD_CHARS}
        return bool(words & new.keys() if words else new)

    def next_ask(self, place: int) -> list[int]:
        """Return the next request of the kind of the one that decided on what happened at an event; none where it never came."""
        decider = self.decider(place)
        return [at for at, ask in self.asks_after(place) if decider is not None and _is_same(decider, ask)][:1]

    def was_told(self, setback: Setback) -> bool:
        """Whether the model was told of it when it was next asked for the same; true where it never was."""
        return all(self.tells(setback.event, asked) for asked in self.next_ask(setback.event))

    def shows_result(self, place: int) -> bool:
        """Whether the next request of the same kind, or else any later one, shows what a run gave; true where nothing was decided
        on after it."""
        run, later = self.events[place], self.asks_after(place)
        assert isinstance(run, ToolRun)
        # Of a scope another turn may never have come.
        asked = self.next_ask(place) or [at for at, ask in later if self.is_finished or not ask.scope]
        if not asked or not any(ask.role in PLANNING for _, ask in later):
            return True
        if not run.ok:
            return any(self.tells(place, at) for at in asked)
        start = run.result.strip()[:MIN_SHOWN] if run.data == run.result else ""  # a result with receipts is known by them
        return any(self.is_shown(run, at) or (start and shows(self.prompts[at], start)) for at in asked)

    def hides_error(self, place: int) -> bool:
        """Whether the event is a run of a tool that failed, and the loop asked on without the error.

        After a run with which the trial ended, what it did with the run of the same call before counts.
        """
        run = self.events[place]
        if not isinstance(run, ToolRun) or run.ok:
            return False
        before = [at for at, other in self.runs if at < place and other.call.key == run.call.key]
        if before and not any(ask.role in PLANNING for _, ask in self.asks_after(place)):
            return self.hides_error(before[-1])
        return not self.shows_result(place)

    def was_cut_out(self, place: int) -> bool:
        """Whether a run repeats one whose result no prompt showed any more that decided on it."""
        key = next(run.call.key for at, run in self.runs if at == place)
        before = [(at, run) for at, run in self.runs if at < place and run.gave_result and run.call.key == key]
        if not before:
            return False
        at, last = before[-1]
        latest = {ask.role: asked for asked, ask in self.asks_after(at) if asked < place and ask.role in PLANNING}
        return bool(latest) and not any(self.is_shown(last, asked) for asked in latest.values())


def _deciders(events: Sequence[TraceEvent]) -> list[int | None]:
    deciders: list[int | None] = []
    by_call: dict[str, int] = {}
    last: int | None = None
    for place, event in enumerate(events):
        if isinstance(event, ModelExchange):
            if event.role in CHOOSING:
                last = place
                by_call.update((call.key, place) for call in event.calls)
            deciders.append(place)
        else:
            deciders.append(last if isinstance(event, Note) else by_call.get(event.call.key, last))
    return deciders


def _is_same(one: ModelExchange, other: ModelExchange) -> bool:
    return (one.role, one.scope) == (other.role, other.scope)


# --- what went wrong ---


def _of_replies(trial: TracedTrial) -> Iterator[Setback]:
    for place, ask in trial.asks:
        what, fault, stands = group(ask), ask.fault, _stands(trial, ask.fault, ask.role)
        if ask.wire_error is not None:
            if fault or not trial.is_scripted:  # else a scripted model had nothing to say in the form asked for
                yield Setback("unreadable", place, what, ask.wire_error, fault, stands and not _was_read(trial, place, ask))
        elif fault.startswith("wire.") and ask.role in CHOOSING and trial.is_open(fault, ask.role, calls_only=True):
            yield Setback("misread", place, what, ask.reply_text, fault, stands)
        elif ask.error is not None and not any(_is_same(ask, one) and one.error is None for _, one in trial.asks_after(place)):
            yield Setback("request", place, what, ": ".join(ask.error), fault, stands)
        elif ask.role == Role.DECIDE and ask.move_kind == "text":
            yield Setback("no call", place, what, ask.reply_text, fault, stands)


def _of_calls(trial: TracedTrial) -> Iterator[Setback]:
    put_right = {step.call.key for step in trial.course if step.call is not None and step.gave_result}
    keys_called: set[str] = set()
    for number, step in enumerate(trial.course):
        if step.call is None or step.event is None:
            continue
        was_made = step.call.key in keys_called
        keys_called.add(step.call.key)
        decider, event = trial.decider(step.event), trial.events[step.event]
        mark, run = decider.fault if decider is not None else "", event if isinstance(event, ToolRun) else None
        if step.event in trial.repeated or (was_made and mark in OVERLOOKED and run is not None):
            if mark in OVERLOOKED or number in trial.unmatched:
                yield Setback("repeated", step.event, step.text, step.observed, mark, stands=True)  # what was done twice is done
        elif not step.gave_result and not _belongs_to_task(trial, number, run, mark):
            fault = trial.fault_of_call(step.event)
            role = decider.role if decider is not None and run is None else ""
            stands = step.call.key not in put_right and _stands(trial, fault, role)
            kind: Literal["failed run", "not run"] = "not run" if run is None or run.never_ran else "failed run"
            yield Setback(kind, step.event, step.text, step.observed, fault, stands)


def _stands(trial: TracedTrial, kind: str, role: str) -> bool:
    """Whether the record, where it knows the fault, says that it was never put right."""
    return all(fault.kind != kind for fault in trial.record.faults) or trial.is_open(kind, role)


def _was_read(trial: TracedTrial, place: int, ask: ModelExchange) -> bool:
    """Whether the loop got past a reply that it could not read.

    By a later one to the same request; of requests that are sent for one task each, by one that makes a call, unless a fault is
    known to have stayed; of those that only keep the books, by going on at all.
    """
    later = trial.asks_after(place)
    if ask.role not in CHOOSING:
        return bool(later)
    same = (one for _, one in later if group(one) == group(ask) and one.move_kind)
    return any(one.scope == ask.scope or (one.calls and not ask.fault) for one in same)


def _belongs_to_task(trial: TracedTrial, number: int, run: ToolRun | None, mark: str) -> bool:
    """Return whether the failure of a call is not an obstacle, as of a search that finds nothing. `mark`: the fault of its reply.

    In a scripted trial what nobody injected belongs to the task, as long as the model takes it as it is. Elsewhere what the other
    course has too, where that never had more of the same call.
    """
    step = trial.course[number]
    if run is None:  # the loop finished in spite of it, or the call was not written under a fault
        return trial.is_finished or (trial.is_scripted and mark not in WRONG_CALLS and not mark.startswith("wire."))
    if run.fault or run.never_ran or mark in WRONG_CALLS:
        return False
    if trial.is_scripted and sum(other.signature == step.signature for other in trial.course) == 1:
        return True
    others = [other for other in trial.other_course if other.call is not None and other.call.key == run.call.key]
    return number not in trial.unmatched and all(other.signature == step.signature for other in others)
