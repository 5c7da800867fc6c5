"""One lost trial as its trace tells it, for any design: the view that the rules of `divergence` are asked about.

A trace keeps what the model wrote, as the loop's own codec reads it, and, apart from that, what was run, what the next prompt
showed and what the outcome states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from whichloop.metrics.record import Record
from whichloop.metrics.trace import GARBAGE, ModelExchange, ToolRun, Trace, TracedCall, TraceEvent, TraceHead
from whichloop.protocol import Role, StopReason
from whichloop.protocol.receipts import strip_receipts

from .trajectory import CHOOSING, WORD, Prompt, TracedStep, course, group, new_words, prompts, shows, unmatched

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
MIN_TOLD, MIN_WORD_CHARS = 40, 4
"""Characters of a tool's error that a design may show alone, and of a word that says something."""


class WrittenCall(NamedTuple):
    """A call as the model wrote it, at the event of a reply."""

    call: TracedCall
    event: int


class MatchedRun(NamedTuple):
    """A run, at an event, and what the model wrote of it."""

    event: int
    run: ToolRun
    stands_for: WrittenCall | None
    """The call of the last replies that ran: the same one, or the one in whose place the loop made it; None: it stands for none."""
    is_own: bool
    """The loop may make such a run by itself: the call had failed, or the last reply was about one that did."""
    was_written: bool
    """The model has written the very call, then or earlier."""
    before: ToolRun | None
    """The last run of the same call before."""

    @property
    def is_as_written(self) -> bool:
        """Whether the call ran as the model wrote it for this run."""
        if self.stands_for is not None:
            return self.stands_for.call.key == self.run.call.key
        return self.is_own and self.was_written


class MatchedRuns(NamedTuple):
    """The runs of a trial's tools beside the calls that its model wrote, matched in time."""

    runs: list[MatchedRun]
    passed_over: list[WrittenCall]
    """Calls that the loop went on without."""
    waiting: list[WrittenCall]
    """Calls of the last replies that never ran."""


def matched_runs(events: Sequence[TraceEvent]) -> MatchedRuns | None:
    """Say which run is of which call, and which is of none; None where the trace does not say what every deciding reply was read
    as, or has none."""
    deciding = [event for event in events if isinstance(event, ModelExchange) and event.role in CHOOSING]
    if not deciding or not all(ask.move_kind or ask.wire_error is not None or ask.error is not None for ask in deciding):
        return None
    found = MatchedRuns([], [], [])
    waiting: list[tuple[str, WrittenCall]] = []  # with the scope of its reply
    written: set[str] = set()
    since_reply: set[str] = set()  # the calls that ran after the last deciding reply
    is_recovering = False  # the last reply was about a failed call; what the loop then does is its own
    last: dict[str, ToolRun] = {}
    for place, event in enumerate(events):
        if isinstance(event, ModelExchange):
            is_recovering = event.role == Role.RECOVER.value
            written.update(call.key for call in (*event.calls, *_recovering(event)))
            if is_recovering:
                waiting = []
            elif event.role in CHOOSING:
                since_reply.clear()
                found.passed_over.extend(call for scope, call in waiting if event.scope in ("", scope))
                waiting = [each for each in waiting if event.scope not in ("", each[0])]
            waiting += [(event.scope, WrittenCall(call, place)) for call in event.calls]
        elif isinstance(event, ToolRun):
            key, before = event.call.key, last.get(event.call.key)
            is_retry = before is not None and not before.gave_result and key in since_reply
            last[key] = event
            since_reply.add(key)
            same = [each for each in waiting if each[1].call.key == key]
            run_later = set() if same else _keys_before_next_reply(events[place + 1 :])
            still_open = [each for each in waiting if each[1].call.key not in run_later]
            meant = same or [each for each in still_open if each[1].call.tool == event.call.tool] or still_open
            is_own = not same and (is_recovering or (is_retry and (key in written or not meant)))
            stands_for = None if is_own or not meant else meant[0]
            if stands_for is not None:
                waiting.remove(stands_for)
            its = None if stands_for is None else stands_for[1]
            found.runs.append(MatchedRun(place, event, its, is_own, key in written, before))
    found.waiting.extend(call for _, call in waiting)
    return found


def runs_not_as_written(events: Sequence[TraceEvent]) -> frozenset[int]:
    """Return the events of the runs whose calls the model did not write so for them; none where the trace does not say what it
    wrote."""
    matched = matched_runs(events)
    return frozenset(each.event for each in matched.runs if not each.is_as_written) if matched is not None else frozenset()


def _recovering(ask: ModelExchange) -> Iterator[TracedCall]:
    """Return the call that a recovery names."""
    call = ask.move.get("call") if ask.move is not None and ask.move_kind == "recovery" else None
    if isinstance(call, Mapping) and isinstance(call.get("name"), str):
        yield TracedCall(call["name"], call.get("arguments"))


def _keys_before_next_reply(events: Sequence[TraceEvent]) -> set[str]:
    keys = set()
    for event in events:
        if isinstance(event, ModelExchange) and event.role in CHOOSING and not event.scope:
            break
        if isinstance(event, ToolRun):
            keys.add(event.call.key)
    return keys


class Setback(NamedTuple):
    """Something that went wrong, at an event."""

    kind: Literal["unreadable", "unfit", "misread", "request", "failed run", "not run", "repeated", "no call"]
    event: int
    what: str
    """The call, or what was asked for."""
    why: str
    """What was said about it."""
    fault: str
    """Kind of the fault that the reply or the run suffered; empty: none is known."""
    stands: bool
    """It was not put right afterwards."""


@dataclass
class TracedTrial:
    """One trial, and the other course that it is held against. What is read off the trace is kept."""

    trace: Trace
    record: Record
    other: Sequence[str] = ()
    """Signatures of the other course; empty: there is none."""
    limit: int | None = None
    """The step limit that was set for a loop which may end by itself before it; None where none was, or where nobody knows."""
    other_course: Sequence[TracedStep] = ()
    """The other course itself, where more than its signatures is known."""

    def against(self, other: Sequence[TracedStep]) -> TracedTrial:
        """Return the same trial held against the course of another."""
        held = copy(self)
        held.other, held.other_course = [step.signature for step in other], other
        for name in ("unmatched", "setbacks"):  # in which the other course has a say
            held.__dict__.pop(name, None)
        return held

    @property
    def events(self) -> Sequence[TraceEvent]:
        return self.trace.events

    @property
    def head(self) -> TraceHead:
        return self.trace.head

    @property
    def is_finished(self) -> bool:
        return self.head.stop == StopReason.FINISHED

    @cached_property
    def course(self) -> tuple[TracedStep, ...]:
        return course(self.trace)

    @cached_property
    def prompts(self) -> list[Prompt]:
        """The prompt of each event, see `prompts`."""
        return prompts(self.events)

    @cached_property
    def asks(self) -> list[tuple[int, ModelExchange]]:
        """The requests, each with its event."""
        return [(place, event) for place, event in enumerate(self.events) if isinstance(event, ModelExchange)]

    def asks_after(self, since: int) -> list[tuple[int, ModelExchange]]:
        return [(place, ask) for place, ask in self.asks if place > since]

    @property
    def last_ask(self) -> tuple[int, ModelExchange] | tuple[None, None]:
        """The last request, with its event."""
        return self.asks[-1] if self.asks else (None, None)

    @cached_property
    def runs(self) -> list[tuple[int, ToolRun]]:
        """The runs of tools, each with its event."""
        return [(place, event) for place, event in enumerate(self.events) if isinstance(event, ToolRun)]

    @cached_property
    def matched(self) -> MatchedRuns | None:
        return matched_runs(self.events)

    @cached_property
    def is_scripted(self) -> bool:
        """A scripted model's trial: its faults are marked, its results carry receipts."""
        of_model = any(not fault.kind.startswith(("tool.", "mcp.", "provider.")) for fault in self.record.faults)
        return of_model or self.record.plan_unseen or any(strip_receipts(run.data) != run.data for _, run in self.runs)

    @cached_property
    def unmatched(self) -> frozenset[int]:
        """Places in the course of steps without a counterpart in the other one; all where there is none."""
        return unmatched(self.other, [step.signature for step in self.course])

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Events of runs of a call that had given a result before, whatever they gave: a second booking may be refused."""
        first = {run.call.key: place for place, run in reversed(self.runs) if run.gave_result}
        return frozenset(place for place, run in self.runs if first.get(run.call.key, place) < place)

    @cached_property
    def last_new(self) -> int:
        """Event of the last run that gave something new; -1 where none did."""
        first = {(run.call.key, run.result): place for place, run in reversed(self.runs) if run.gave_result}
        return max(first.values(), default=-1)

    @property
    def steps_left(self) -> int:
        """How many steps before its limit the loop ended, though it says that it reached it; 0 where it did, or nobody knows.

        A loop may count its replies or its calls: the larger number counts.
        """
        if self.limit is None or self.head.stop != StopReason.MAX_STEPS:
            return 0
        return max(0, self.limit - max(self.record.steps, self.record.tool_calls))

    @cached_property
    def _deciders(self) -> list[int | None]:
        deciders: list[int | None] = []
        by_call: dict[str, int] = {}
        last: int | None = None
        for place, event in enumerate(self.events):
            if isinstance(event, ModelExchange):
                deciders.append(place)
                if event.role in CHOOSING:
                    last = place
                    by_call.update((call.key, place) for call in event.calls)
            else:
                deciders.append(by_call.get(event.call.key, last) if isinstance(event, ToolRun) else last)
        return deciders

    def decider(self, place: int) -> ModelExchange | None:
        """Return the reply that decided on what happened at an event: itself, or the last that made the call, or that could
        have."""
        at = self._deciders[place]
        return None if at is None or not isinstance(reply := self.events[at], ModelExchange) else reply

    def fault_of_call(self, place: int) -> str:
        """Return the kind of fault that a call suffered: of its run, else of the reply that decided on it; empty: none is known."""
        run, decider = self.events[place], self.decider(place)
        return (run.fault if isinstance(run, ToolRun) else "") or (decider.fault if decider is not None else "")

    def is_open(self, kind: str, role: str = "", *, calls_only: bool = False) -> bool:
        """Whether the record has a fault of this kind, at a point of this role, that landed and was not put right.

        `calls_only`: at a planned call, not where there was none to decide on.
        """
        standing = (fault for fault in self.record.faults if fault.landed and not (fault.absorbed or fault.recovered))
        points = (fault.point.partition(":") for fault in standing if fault.kind == kind)
        return any(role in ("", at) and not (calls_only and call == "answer") for at, _, call in points)

    # --- what went wrong ---

    @cached_property
    def setbacks(self) -> list[Setback]:
        """What went wrong, in time."""
        return sorted([*self._of_replies(), *self._of_calls()], key=lambda setback: setback.event)

    def _of_replies(self) -> Iterator[Setback]:
        for place, ask in self.asks:
            stands = self._stands(ask.fault, ask.role)
            if ask.wire_error is not None:
                kind: Literal["unfit", "unreadable"] = "unfit" if self.is_scripted and not ask.fault else "unreadable"
                yield Setback(kind, place, group(ask), ask.wire_error, ask.fault, stands and not self._was_read(place, ask))
            elif ask.fault.startswith("wire.") and ask.role in CHOOSING and self.is_open(ask.fault, ask.role, calls_only=True):
                yield Setback("misread", place, group(ask), ask.reply_text, ask.fault, stands)
            elif ask.error is not None and not any(_is_same(ask, one) and one.error is None for _, one in self.asks_after(place)):
                yield Setback("request", place, group(ask), ": ".join(ask.error), ask.fault, stands)
            elif ask.role == Role.DECIDE and ask.move_kind == "text":
                yield Setback("no call", place, group(ask), ask.reply_text, ask.fault, stands)

    def _of_calls(self) -> Iterator[Setback]:
        put_right = {step.call.key for step in self.course if step.call is not None and step.gave_result}
        keys_called: set[str] = set()
        for number, step in enumerate(self.course):
            if step.call is None or step.event is None:
                continue
            was_made = step.call.key in keys_called
            keys_called.add(step.call.key)
            decider, run = self.decider(step.event), self.events[step.event]
            mark = decider.fault if decider is not None else ""
            if step.event in self.repeated or (was_made and mark in OVERLOOKED and isinstance(run, ToolRun)):
                if mark in OVERLOOKED or number in self.unmatched:
                    yield Setback(
                        "repeated", step.event, step.text, step.observed, mark, stands=True
                    )  # what was done twice is done
            elif not step.gave_result and not self._belongs_to_task(number):
                kind: Literal["failed run", "not run"] = (
                    "failed run" if isinstance(run, ToolRun) and not run.never_ran else "not run"
                )
                fault = self.fault_of_call(step.event)
                stands = step.call.key not in put_right and self._stands(fault, run.role if isinstance(run, ModelExchange) else "")
                yield Setback(kind, step.event, step.text, step.observed, fault, stands)

    def _stands(self, kind: str, role: str) -> bool:
        """Whether the record, where it knows the fault, says that it was never put right."""
        return all(fault.kind != kind for fault in self.record.faults) or self.is_open(kind, role)

    def _was_read(self, place: int, ask: ModelExchange) -> bool:
        """Whether the loop got past a reply that it could not read.

        By a later one to the same request; of requests that are sent for one task each, by one that makes a call, unless a fault is
        known to have stayed; of those that only keep the books, by going on at all.
        """
        later = [one for _, one in self.asks_after(place)]
        if ask.role not in CHOOSING:
            return bool(later)
        same = (one for one in later if group(one) == group(ask) and one.move_kind)
        return any(one.scope == ask.scope or (one.calls and not ask.fault) for one in same)

    def _belongs_to_task(self, number: int) -> bool:
        """Return whether the failure of a call is not an obstacle, as of a search that finds nothing.

        In a scripted trial what nobody injected belongs to the task, as long as the model takes it as it is. Elsewhere what the
        other course has too, where that never had more of the same call.
        """
        step = self.course[number]
        assert step.event is not None
        run, decider = self.events[step.event], self.decider(step.event)
        mark = decider.fault if decider is not None else ""
        if not isinstance(run, ToolRun):  # the loop finished in spite of it, or the call was not written under a fault
            return self.is_finished or (self.is_scripted and mark not in WRONG_CALLS and not mark.startswith("wire."))
        if run.fault or run.never_ran or mark in WRONG_CALLS:
            return False
        if self.is_scripted and sum(other.signature == step.signature for other in self.course) == 1:
            return True
        others = [other for other in self.other_course if other.call is not None and other.call.key == run.call.key]
        return number not in self.unmatched and all(other.signature == step.signature for other in others)

    def damaged_source(self, place: int) -> TracedCall | None:
        """Return the call whose result was noise, of what this run was given as an argument; None where it was given none."""
        failed = self.events[place]
        if not isinstance(failed, ToolRun) or not isinstance(failed.call.arguments, dict):
            return None
        given = {value for value in failed.call.arguments.values() if isinstance(value, str)}
        noise = (run for at, run in self.runs if at < place and run.fault == GARBAGE and run.result.strip() in given)
        return next((run.call for run in noise), None)

    # --- what the loop told the model ---

    def is_shown(self, run: ToolRun, place: int) -> bool:
        """Whether the prompt of a request, at an event, shows what a run gave."""
        event = self.events[place]
        return shows(self.prompts[place], run.data, event.illegible if isinstance(event, ModelExchange) else ())

    def tells(self, place: int, asked: int) -> bool:
        """Whether the prompt of a request tells what went wrong at an event: a tool's error as it stands, or half of the words that
        it begins with; of a reply's any word, or anything where it is not known."""
        event, before = self.events[place], self._deciders[place]
        error = event.result if isinstance(event, ToolRun) else getattr(event, "wire_error", None) or ""
        if before is None or (error and any(error in message for message in self.prompts[asked])):
            return True
        decider = self.decider(place)
        new = new_words(self.prompts[before], self.prompts[asked], decider.reply_text if decider is not None else "")
        if isinstance(event, ToolRun):
            words = set(WORD.findall(error[:MIN_TOLD].lower()))
            return 2 * len(words & new.keys()) >= len(words) > 0
        words = {word for word in WORD.findall(error.lower()) if len(word) >= MIN_WORD_CHARS}
        return bool(words & new.keys() if words else new)

    def same_asks(self, place: int) -> list[int]:
        """Return the later requests of the same kind as the one that decided on what happened at an event."""
        decider = self.decider(place)
        return [at for at, ask in self.asks_after(place) if decider is not None and _is_same(decider, ask)]

    def was_told(self, setback: Setback) -> bool:
        """Whether the model was told of it when it was next asked for the same; true where it never was."""
        return all(self.tells(setback.event, asked) for asked in self.same_asks(setback.event)[:1])

    def later_prompts(self, place: int) -> list[int]:
        """Return the requests that should show what a run gave: the next of the same kind, or else all later ones; none where none
        decided on anything."""
        later = self.asks_after(place)
        if not any(ask.role in PLANNING for _, ask in later):
            return []
        # a scope's turn may never have come
        return self.same_asks(place)[:1] or [at for at, ask in later if self.is_finished or not ask.scope]

    def hides_error(self, place: int) -> bool:
        """Whether the event is a run of a tool that failed, and the loop asked on without the error.

        After a run with which the trial ended, what it did with the run of the same call before counts.
        """
        run = self.events[place]
        if not isinstance(run, ToolRun) or run.ok:
            return False
        if any(ask.role in PLANNING for _, ask in self.asks_after(place)):
            asked = self.later_prompts(place)
            return bool(asked) and not any(self.tells(place, at) for at in asked)
        before = [at for at, other in self.runs if at < place and other.call.key == run.call.key]
        return bool(before) and self.hides_error(before[-1])

    def was_cut_out(self, place: int) -> bool:
        """Whether a run repeats one whose result no prompt showed any more that decided on it."""
        run = self.events[place]
        before = [(at, one) for at, one in self.runs if at < place and one.gave_result and one.call.key == run.call.key]  # type: ignore[union-attr]
        if not before:
            return False
        at, last = before[-1]
        latest = {ask.role: asked for asked, ask in self.asks_after(at) if asked < place and ask.role in PLANNING}
        return bool(latest) and not any(self.is_shown(last, asked) for asked in latest.values())


def _is_same(one: ModelExchange, other: ModelExchange) -> bool:
    return (one.role, one.scope) == (other.role, other.scope)
