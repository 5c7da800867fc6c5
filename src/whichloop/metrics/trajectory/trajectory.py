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
from typing import Any, Literal, NamedTuple

from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TracedCall, TraceEvent, TraceHead, canonical
from whichloop.protocol import Role, render_value
from whichloop.protocol.digest import sha256
from whichloop.protocol.receipts import MARK, receipt_of, strip_receipts
from whichloop.protocol.values import one_line

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
    gave_result: bool = field(default=False, compare=False)
    """The call gave a result."""


def course(trace: Trace) -> tuple[TracedStep, ...]:
    """Return the steps of one trial, its end the last.

    What may happen at once, tools' runs and requests with a scope, stands in the order of scopes and of the calls in their replies:
    the order in which it ended says nothing.
    """
    attributed: list[_UnplacedStep] = []
    turn: list[_UnplacedStep] = []
    for item in _attributed(trace.events):
        if not item.at_once:
            attributed.extend(_in_order(turn))
            turn = []
        turn.append(item)
    attributed.extend(_in_order(turn))
    return (*(item.step for item in attributed if item.kind is not None), _last(trace.head))


def signatures(line: str) -> tuple[str, ...]:
    """Return the signatures in a line, the form in which a course is written down: with spaces between them."""
    return tuple(line.split())


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


# --- steps ---


class _Slot(NamedTuple):
    """Where a call was decided on: what is at once is put in this order."""

    scope: tuple[tuple[int, str], ...] = ()
    reply: int = 0
    """Its number among the scope's choosing replies."""
    place: int = 0
    """Among the reply's calls."""


@dataclass(slots=True, eq=False)
class _UnplacedStep:
    """A step before its place is known; without a kind: a request that is not a step, and only parts the turns."""

    at_once: bool
    event: int
    slot: _Slot
    kind: Kind | None = None
    said: str = ""
    """What the signature of a reply's step is of."""
    text: str = ""
    observed: str = ""
    call: TracedCall | None = None
    ran: ToolRun | None = None
    """The run of the call; None: no tool has run it."""

    @property
    def content(self) -> str:
        """What its signature is of."""
        if self.call is None:
            return self.said
        came: list[object] = [NOT_RUN]
        if self.ran is not None and not self.ran.never_ran:
            came = [self.ran.ok, self.ran.error_type or "", self.ran.result]
        return canonical(["call", self.call.tool, self.call.arguments, *came])

    @property
    def step(self) -> TracedStep:
        assert self.kind is not None
        signature = _signature(self.content)
        if self.call is None:
            return TracedStep(self.kind, self.text, self.observed, signature, self.event)
        gave_result = self.ran is not None and self.ran.gave_result
        return TracedStep(self.kind, call_text(self.call), _came_of(self.ran), signature, self.event, self.call, gave_result)


def _attributed(happened: Sequence[TraceEvent]) -> list[_UnplacedStep]:
    """Return all that happened, in time; tools' runs with the reply that decided on them, and calls that no tool has run."""
    steps_found: list[_UnplacedStep] = []
    replies = Counter[str]()
    waiting: dict[str, list[_UnplacedStep]] = {}
    """Scope → calls that were decided on and that no tool has run yet."""
    slots: dict[str, _Slot] = {}
    """Call → the slot of its last run: the loop may run it again by itself."""
    last_work = max((place for place, event in enumerate(happened) if _is_work(event)), default=-1)
    for place, event in enumerate(happened):
        if isinstance(event, ModelExchange):
            chooses = event.role in CHOOSING
            replies[event.scope] += chooses
            slot = _Slot(_natural(event.scope), replies[event.scope])
            steps_found.append(_of_ask(event, place, slot, goes_on=place < last_work))
            if not event.scope:  # scopes are parts that run at once: a request outside of all comes after them
                waiting = {} if chooses else {"": waiting.get("", [])}
            if chooses:
                slots_of_calls = (_Slot(slot.scope, slot.reply, number) for number in range(1, len(event.calls) + 1))
                decided = [_of_call(call, None, place, own) for call, own in zip(event.calls, slots_of_calls, strict=True)]
                waiting.setdefault(event.scope, []).extend(decided)
                steps_found.extend(decided)
        elif isinstance(event, ToolRun):
            taken = _take(event.call, waiting)
            if taken is not None:
                steps_found.remove(taken)
            slot = taken.slot if taken is not None else slots.get(event.call.key, _UNDECIDED)
            slots[event.call.key] = slot
            steps_found.append(_of_call(event.call, event, place, slot))
    return steps_found


def _is_work(event: TraceEvent) -> bool:
    return isinstance(event, ToolRun) or (isinstance(event, ModelExchange) and event.role in CHOOSING)


def _natural(scope: str) -> tuple[tuple[int, str], ...]:
    """Return a scope as it is sorted: numbers within it as numbers, c2 before c10."""
    if not scope:
        return ()
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", scope) if part)


_UNDECIDED = _Slot(((1 << 62, ""),))
"""The last slot, for a run that no reply has decided on."""


def _take(call: TracedCall, waiting: Mapping[str, list[_UnplacedStep]]) -> _UnplacedStep | None:
    """Return the waiting call that a run is of: the same, else one of the same tool, whose arguments the loop has changed."""
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


def _in_order(turn: list[_UnplacedStep]) -> list[_UnplacedStep]:
    """Return the steps of one turn by their slots; equal calls of several slots, whose runs cannot be told apart, by what came of
    them."""
    by_call: dict[str, list[_UnplacedStep]] = {}
    for item in turn:
        if item.call is not None:
            by_call.setdefault(item.call.key, []).append(item)
    for equal in by_call.values():
        slots = sorted(item.slot for item in equal)
        if slots[0] != slots[-1]:
            for item, slot in zip(sorted(equal, key=lambda item: item.content), slots, strict=True):
                item.slot = slot
    return sorted(turn, key=lambda item: (item.at_once, item.slot, item.content if item.slot == _UNDECIDED else ""))


def _of_ask(ask: ModelExchange, place: int, slot: _Slot, *, goes_on: bool) -> _UnplacedStep:
    """Return the step that a request made. `goes_on`: decisions or runs followed, so that an answer in it was none."""
    step = _UnplacedStep(bool(ask.scope), place, slot)
    if ask.error is not None:
        kind, message = ask.error
        step.kind, step.said = "failed", canonical(["failed", group(ask), kind])
        step.text, step.observed = group(ask), f"{kind}: {shortened(message)}"
    elif ask.wire_error is not None:
        step.kind, step.said = "unreadable", canonical(["unreadable", group(ask)])
        step.text, step.observed = group(ask), shortened(ask.wire_error)
    elif ask.role == DECIDING and ask.move_kind == "text":
        step.kind, step.said = "other", canonical(["text"])
        step.text, step.observed = "no call", shortened(ask.reply_text)
    elif ask.role in CHOOSING and ask.move_kind == "answer" and goes_on:
        step.kind, step.said = "other", canonical(["stated", render_value(ask.value)])
        step.text, step.observed = f"answer {shortened(render_value(ask.value))}", "the run went on"
    return step


def _of_call(call: TracedCall, ran: ToolRun | None, place: int, slot: _Slot) -> _UnplacedStep:
    return _UnplacedStep(True, place, slot, "call", call=call, ran=ran)


def _came_of(ran: ToolRun | None) -> str:
    """Return what came of a call, short."""
    if ran is None:
        return NOT_RUN
    failed, gave = f"{ran.error_type or 'error'}: ", shortened(ran.result)
    return gave if ran.ok or gave.startswith(failed) else f"{failed}{gave}"


def _last(head: TraceHead) -> TracedStep:
    answer = render_value(head.answer)
    content = canonical(["end", answer, head.stop])
    return TracedStep("answer", shortened(answer), head.stop or "", _signature(content))


def group(exchange: ModelExchange) -> str:
    """Return the role that a request was sent in; the choosing ones are one."""
    return DECIDING if exchange.role in CHOOSING else exchange.role


def call_text(call: TracedCall) -> str:
    """Return `add(a=1, b=2)`, short."""
    arguments = call.arguments
    if not isinstance(arguments, Mapping):
        return shortened(f"{call.tool}({render_value(arguments)})")
    return shortened(f"{call.tool}({', '.join(f'{name}={_value_text(value)}' for name, value in arguments.items())})")


def _signature(content: str) -> str:
    return sha256(content)[:SIGNATURE_CHARS]


def _value_text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else render_value(value)


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
    if shown_marks or (marks and len(set(_TOKEN.findall(plain))) < MIN_WORDS):  # of a short text only the marks tell
        return not shown_marks <= set(illegible)
    quoted = json.dumps(plain, ensure_ascii=False)[1:-1]
    twice = json.dumps(quoted, ensure_ascii=False)[1:-1]
    forms = {plain, quoted, twice, json.dumps(plain)[1:-1]}
    if any(form in message for message in prompt for form in forms):
        return True
    words = set(_TOKEN.findall(plain))
    if len(words) < MIN_WORDS:
        return False
    seen = {word for message in prompt for word in _TOKEN.findall(message.replace("\\n", " "))}
    return 10 * len(words & seen) >= 9 * len(words)


def new_words(before: Prompt, now: Prompt, own: str) -> Counter[str]:
    """Return the words, in small letters, that a prompt has and the one before did not, its own reply aside.

    Bags of words, so that it holds for any loop's wording: the same question as a scripted model's "has feedback been shown?".
    """
    # Most of a prompt is the same as before, and would cancel out.
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, now, strict=False)))
    said, old, its = (Counter(WORD.findall("\n".join(texts).lower())) for texts in (now[same:], before[same:], [own]))
    return said - old - its
