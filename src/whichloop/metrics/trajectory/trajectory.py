"""The course of a trial: what was decided and what came of it, whatever the loop's wire format and bookkeeping.

Two designs that do the same thing in other words, in other formats, with more or fewer calls for planning and reflecting have the
same course: tool calls with their results, replies that could not be read, failures of the provider, and the end. Each step has a
signature of six hex digits, so that a whole course fits in a short line and two of them can be compared without their traces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TracedCall, TraceEvent
from whichloop.protocol import Role, render_value
from whichloop.protocol.json_text import sha256
from whichloop.protocol.receipts import MARK, receipt_of, strip_receipts
from whichloop.protocol.values import canonical, one_line

NOT_RUN = "not run"
"""What came of a call that no tool has run: its tool does not exist, its arguments do not fit, or the loop passed over it."""
CHOOSING = frozenset({Role.DECIDE.value, Role.SELECT.value})
"""Roles whose replies are calls, or the answer: the same question in designs that ask it once and in those that ask by task."""
SIGNATURE_CHARS, MAX_TEXT = 6, 120
"""Characters of a signature, and of a call or of what came of it in a step's text."""


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One thing that was decided, and what came of it."""

    text: str
    """Short: `add(a=1, b=2)`, `decide`, the answer."""
    observed: str
    """What came of it: the result, the error, the stop."""
    signature: str
    """Six hex digits of both in full."""
    event: int | None = field(default=None, compare=False)
    """Index in the trace's events; None for the end."""
    call: TracedCall | None = field(default=None, compare=False)
    gave_result: bool = field(default=False, compare=False)
    """The call gave a result."""


Slot = tuple[tuple[tuple[int, str], ...], int, int]
"""Where a call was decided on: the scope, the number of the reply among the scope's choosing ones, the place among its calls."""
_UNDECIDED: Slot = (((1 << 62, ""),), 0, 0)
"""The last slot, for a run that no reply has decided on."""


@dataclass(slots=True, eq=False)
class _Placed:
    """A step, and where it stands: within a turn, in which things may happen at once, in the order of slots."""

    turn: int
    slot: Slot
    content: str
    """What its signature is of."""
    step: TracedStep


def course(trace: Trace) -> tuple[TracedStep, ...]:
    """Return the steps of one trial, its end the last.

    What may happen at once, tools' runs and requests with a scope, stands in the order of scopes and of the calls in their replies:
    the order in which it ended says nothing.
    """
    placed: list[_Placed] = []
    turn = 0
    replies = Counter[str]()
    waiting: list[tuple[TracedCall, _Placed]] = []  # calls that were decided on and that no tool has run yet
    slots: dict[str, Slot] = {}  # call → the slot of its last run: the loop may run it again by itself
    working = [isinstance(event, ToolRun) or getattr(event, "role", "") in CHOOSING for event in trace.events]
    last_work = max((place for place, works in enumerate(working) if works), default=-1)
    for place, event in enumerate(trace.events):
        if isinstance(event, ModelExchange):
            chooses = event.role in CHOOSING
            replies[event.scope] += chooses
            scope, number = _natural(event.scope), replies[event.scope]
            turn += not event.scope  # scopes are parts that run at once: a request outside of all comes after them
            if told := _of_reply(event, goes_on=place < last_work):
                placed.append(_Placed(turn, (scope, number, 0), told[0], _step(*told, place)))
            if not event.scope:
                turn += 1
                waiting = [] if chooses else [each for each in waiting if not each[1].slot[0]]
            if chooses:
                decided = [(call, _of_call(call, None, place, turn, (scope, number, at))) for at, call in enumerate(event.calls, 1)]
                waiting += decided
                placed += [item for _, item in decided]
        elif isinstance(event, ToolRun):
            same = [each for each in waiting if each[0].key == event.call.key]
            same = same or [each for each in waiting if each[0].tool == event.call.tool]  # whose arguments the loop has changed
            slot = slots.get(event.call.key, _UNDECIDED)
            if same:
                taken = min(same, key=lambda each: each[1].slot)
                waiting.remove(taken)
                placed.remove(taken[1])
                slot = taken[1].slot
            slots[event.call.key] = slot
            placed.append(_of_call(event.call, event, place, turn, slot))
    answer, stop = render_value(trace.head.answer), trace.head.stop
    return (*_in_order(placed), _step(canonical(["end", answer, stop]), shortened(answer), stop or ""))


def unmatched(other: Sequence[str], own: Sequence[str]) -> frozenset[int]:
    """Return places in `own` of the signatures that have no counterpart in `other`, in whatever order they stand there."""
    remaining = Counter(other)
    places = set()
    for place, signature in enumerate(own):
        if remaining[signature] > 0:
            remaining[signature] -= 1
        else:
            places.add(place)
    return frozenset(places)


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """Return a text in one line of at most `most` characters, its middle left out where it is longer."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most * 2 // 3]}…{line[-most // 3 :]}"


def group(exchange: ModelExchange) -> str:
    """Return the role that a request was sent in; the choosing ones are one."""
    return Role.DECIDE.value if exchange.role in CHOOSING else exchange.role


def call_text(call: TracedCall) -> str:
    """Return `add(a=1, b=2)`, short."""
    given = call.arguments
    if not isinstance(given, Mapping):
        return shortened(f"{call.tool}({render_value(given)})")
    values = (f"{name}={repr(value) if isinstance(value, str) else render_value(value)}" for name, value in given.items())
    return shortened(f"{call.tool}({', '.join(values)})")


def _natural(scope: str) -> tuple[tuple[int, str], ...]:
    """Return a scope as it is sorted: numbers within it as numbers, c2 before c10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", scope) if part)


def _in_order(placed: Sequence[_Placed]) -> list[TracedStep]:
    """Return the steps by turns and slots; equal calls of a turn, whose runs cannot be told apart, by what came of them."""
    by_call: dict[tuple[int, str], list[_Placed]] = {}
    for each in placed:
        if each.step.call is not None:
            by_call.setdefault((each.turn, each.step.call.key), []).append(each)
    for equal in by_call.values():
        slots = sorted(each.slot for each in equal)
        for each, slot in zip(sorted(equal, key=lambda each: each.content), slots, strict=True):
            each.slot = slot
    return [
        each.step
        for each in sorted(placed, key=lambda each: (each.turn, each.slot, each.content if each.slot == _UNDECIDED else ""))
    ]


def _of_reply(ask: ModelExchange, *, goes_on: bool) -> tuple[str, str, str] | None:
    """Return what a reply's signature is of, its text and what came of it; None if it is no step.

    `goes_on`: decisions or runs followed, so that an answer in it was none.
    """
    if ask.error is not None:
        kind, message = ask.error
        return canonical(["failed", group(ask), kind]), group(ask), f"{kind}: {shortened(message)}"
    if ask.wire_error is not None:
        return canonical(["unreadable", group(ask)]), group(ask), shortened(ask.wire_error)
    if ask.role == Role.DECIDE and ask.move_kind == "text":
        return canonical(["text"]), "no call", shortened(ask.reply_text)
    if ask.role in CHOOSING and ask.move_kind == "answer" and goes_on:
        stated = render_value(ask.value)
        return canonical(["stated", stated]), f"answer {shortened(stated)}", "the run went on"
    return None


def _of_call(call: TracedCall, ran: ToolRun | None, place: int, turn: int, slot: Slot) -> _Placed:
    """Return a call with what came of it. `ran`: None if no tool has run it."""
    came: list[object] = [NOT_RUN]
    observed = NOT_RUN
    if ran is not None:
        came = [NOT_RUN] if ran.never_ran else [ran.ok, ran.error_type or "", ran.result]
        failed, observed = f"{ran.error_type or 'error'}: ", shortened(ran.result)
        observed = observed if ran.ok or observed.startswith(failed) else f"{failed}{observed}"
    content = canonical(["call", call.tool, call.arguments, *came])
    gave_result = ran is not None and ran.gave_result
    return _Placed(turn, slot, content, _step(content, call_text(call), observed, place, call, gave_result))


def _step(content: str, text: str, observed: str, place: int | None = None, *of_call: Any) -> TracedStep:
    return TracedStep(text, observed, sha256(content)[:SIGNATURE_CHARS], place, *of_call)


# --- prompts ---

Prompt = Sequence[str]
"""The texts of a request's messages, in order."""
WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"\w+")
MIN_WORDS = 4
"""A text of fewer words is looked for as it is only: words of their own say little."""


def prompts(happened: Iterable[TraceEvent]) -> list[Prompt]:
    """Return the prompt that each event sent; empty for an event that is not a request.

    A trace keeps of a request what the last one of its role and scope had not shown yet.
    """
    latest: dict[tuple[str, str], tuple[str, ...]] = {}
    prompts_found: list[Prompt] = []
    for event in happened:
        if not isinstance(event, ModelExchange):
            prompts_found.append(())
            continue
        key = (event.role, event.scope)
        latest[key] = (*latest.get(key, ())[: max(event.same, 0)], *event.texts)
        prompts_found.append(latest[key])
    return prompts_found


def shows(prompt: Prompt, text: str, illegible: Collection[str] = ()) -> bool:
    """Whether a prompt shows a text: by its receipt where it has one, else as it is, quoted, or nine in ten of its words.

    `illegible`: receipts, CALL.CONTENT, whose marks prove nothing: beside them a scripted model could not read in this prompt what
    its plan goes on to use of their results.
    """
    marks = {match[0]: receipt_of(match) for match in MARK.finditer(text)}
    shown_marks = {receipt for message in prompt for mark, receipt in marks.items() if mark in message}
    plain = strip_receipts(text).strip()
    words = set(_TOKEN.findall(plain))
    if shown_marks or (marks and len(words) < MIN_WORDS):  # of a short text only the marks tell
        return not shown_marks <= set(illegible)
    quoted = json.dumps(plain, ensure_ascii=False)[1:-1]
    twice = json.dumps(quoted, ensure_ascii=False)[1:-1]
    forms = {plain, quoted, twice, json.dumps(plain)[1:-1]}
    if any(form in message for message in prompt for form in forms):
        return True
    seen = {word for message in prompt for word in _TOKEN.findall(message.replace("\\n", " "))}
    return len(words) >= MIN_WORDS and 10 * len(words & seen) >= 9 * len(words)


def new_words(before: Prompt, now: Prompt, own: str) -> Counter[str]:
    """Return the words, in small letters, that a prompt has and the one before did not, its own reply aside.

    Bags of words, so that it holds for any loop's wording: the same question as a scripted model's "has feedback been shown?".
    """
    # Most of a prompt is the same as before, and would cancel out.
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, now, strict=False)))
    said, old, its = (Counter(WORD.findall("\n".join(texts).lower())) for texts in (now[same:], before[same:], [own]))
    return said - old - its


# --- runs beside the calls that the model wrote ---


class WrittenCall(NamedTuple):
    """A call as the model wrote it."""

    call: TracedCall
    event: int
    scope: str


class MatchedRun(NamedTuple):
    """A run of a tool, and what the model wrote of it.

    `stands_for`: the call of the last replies that ran, the same one, or the one in whose place the loop made it. `is_own`: the
    loop may make the run by itself: the call had failed, or the last reply was about one that did, or could not be read.
    `was_written`: the model wrote the very call, then or earlier. `had_result`: the last run of the same call gave a result.
    """

    event: int
    run: ToolRun
    stands_for: WrittenCall | None
    is_own: bool
    was_written: bool
    had_result: bool


def matched_runs(events: Sequence[TraceEvent]) -> tuple[list[MatchedRun], list[WrittenCall], list[WrittenCall]] | None:
    """Return the runs with the calls that they are of, the calls that the loop went on without, and those left at the end.

    None where the trace does not say what every deciding reply was read as, or has none.
    """
    deciding = [event for event in events if isinstance(event, ModelExchange) and event.role in CHOOSING]
    if not deciding or not all(ask.move_kind or ask.wire_error is not None or ask.error is not None for ask in deciding):
        return None
    runs: list[MatchedRun] = []
    passed_over: list[WrittenCall] = []
    waiting: list[WrittenCall] = []
    written: set[str] = set()
    had_result: dict[str, bool] = {}
    failed: set[str] = set()  # calls that failed after the last deciding reply
    acts_itself = False  # the last reply was about a failed call, or could not be read by the codec: what follows is the loop's own
    for place, event in enumerate(events):
        if isinstance(event, ModelExchange):
            acts_itself = event.role == Role.RECOVER or event.wire_error is not None
            left = [] if event.role == Role.RECOVER else waiting
            if event.role in CHOOSING:
                failed.clear()
                left = [one for one in waiting if event.scope not in ("", one.scope)]
                passed_over += [one for one in waiting if one not in left]
            waiting = left + [WrittenCall(call, place, event.scope) for call in event.calls]
            written.update(call.key for call in event.calls)
            recovered = event.move.get("call") if event.move is not None and event.move_kind == "recovery" else None
            if isinstance(recovered, Mapping):
                written.add(TracedCall(str(recovered.get("name")), recovered.get("arguments")).key)
        elif isinstance(event, ToolRun):
            key, is_own = event.call.key, False
            meant = [one for one in waiting if one.call.key == key]
            if not meant:
                before_next = takewhile(lambda one: not isinstance(one, ModelExchange) or _goes_on(one), events[place + 1 :])
                later = {one.call.key for one in before_next if isinstance(one, ToolRun)}
                still_open = [one for one in waiting if one.call.key not in later]
                meant = [one for one in still_open if one.call.tool == event.call.tool] or still_open
                is_own = acts_itself or (key in failed and (key in written or not meant))
            stands_for = None if is_own or not meant else meant[0]
            if stands_for is not None:
                waiting.remove(stands_for)
            runs.append(MatchedRun(place, event, stands_for, is_own, key in written, had_result.get(key, False)))
            had_result[key] = event.gave_result
            (failed.discard if event.gave_result else failed.add)(key)
    return runs, passed_over, waiting


def _goes_on(ask: ModelExchange) -> bool:
    """Whether calls of an earlier reply may still run after a request."""
    return ask.role not in CHOOSING or bool(ask.scope)


def runs_not_as_written(events: Sequence[TraceEvent]) -> frozenset[int]:
    """Return the events of the runs whose calls the model did not write so for them; none where the trace does not say what it
    wrote."""
    return frozenset(
        at
        for at, run, stands_for, is_own, was_written, _ in (matched_runs(events) or ([],))[0]
        if not (is_own and was_written if stands_for is None else stands_for.call.key == run.call.key)
    )


def first_difference(a: Sequence[str], b: Sequence[str]) -> int | None:
    """Return the step, from 1, of `b` at which it parts from `a`, both signatures of courses; None where they are equal.

    The first step of `b` that `a` does not have anywhere: two designs may do the same in another order. Where `a` has them all, the
    first in whose place `a` has another; one beyond the end of `b` where that is only shorter.
    """
    if list(a) == list(b):
        return None
    alone = unmatched(a, b)
    if alone:
        return min(alone) + 1
    return next((place for place, (one, other) in enumerate(zip(a, b, strict=False), 1) if one != other), min(len(a), len(b)) + 1)
