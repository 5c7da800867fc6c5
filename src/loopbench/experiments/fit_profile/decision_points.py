"""Sorting a trace into decision points: the requests, the attempts, and the fault of the first attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from loopbench.metrics.trace import NEVER_RAN, ModelExchange, ToolRun, Trace, TracedCall, TraceEvent, canonical
from loopbench.models.faults import CALLING
from loopbench.models.feedback import COMPLAINTS, FaultSigns, parts_shown, signs_of_provider, tellable_parts, words_of
from loopbench.protocol import Message, Reply, Request

from .clearing import Retry, RetryRun
from .forgetting import distance
from .replies import KIND_OF_HINT, MAX_HINT_CHARS, SETTLED, Hint, hint_of, provider_fault, wire_damage

REPEATED = "repeated"
"""A repetition of a successful call: `decision.repeated_call` or `never_finish`, depending on the rest of the point."""
REFUSED = "refused"
"""A call that could not run; the tool's other calls show the kind of mistake."""
TOOL = "tool"
"""A call that ran and failed."""
DECIDE = "decide"
"""The role in which results may be overlooked and the fault be told apart."""
MAX_RETRIES = 10**6
"""Maximum plausible number of retries of one trial."""

Key = tuple[str, str]
"""A call: the tool's name and its arguments as canonical JSON."""
Shape = tuple[tuple[str, str], ...]
"""Names and JSON types of a call's arguments, sorted."""


@dataclass(slots=True)
class StatedCall:
    """A call in a move, with the error type of each of its runs, "" for a success."""

    tool: str
    key: Key
    shape: Shape
    runs: list[str] = field(default_factory=list)
    hint: Hint = ""
    told: str = ""
    """What its last run gave: the error's type and text."""

    @property
    def is_refused(self) -> bool:
        """Tell whether the call never ran."""
        return not self.runs or self.runs[-1] in NEVER_RAN

    @property
    def failed(self) -> bool:
        return self.is_refused or self.runs[-1] != ""


@dataclass(slots=True)
class Attempt:
    """One request and its result."""

    role: str
    scope: str
    messages: tuple[Message, ...]
    reply: Reply
    seconds: float = 0.0
    input_tokens: int | None = None
    forced: bool = False
    """Whether the request forces a tool call."""
    error: str = ""
    """The kind of a provider error; empty if there is none."""
    error_text: str = ""
    wire_error: str | None = None
    """Why the reply could not be read; None: it could."""
    states: str = ""
    """Kind of move; empty if there is none."""
    is_plain: bool = False
    """Whether the reply's text is the move itself, so that a damaged one is still readable."""
    calls: list[StatedCall] = field(default_factory=list)
    repeats: bool = False
    """Whether all calls had worked before and the request showed their results."""
    again: str = ""
    """Which call that had worked, and whose result the request showed, is made again: last, earlier; empty for none."""
    distances: tuple[float, ...] = ()
    """How far from the request's end each result stands that it shows, in the order of the calls."""

    frame: frozenset[str] = frozenset()
    """Words of the reply's format: those that the move does not have."""

    @property
    def unreadable(self) -> bool:
        return self.wire_error is not None

    @property
    def wire(self) -> str:
        """The kind of damage of the raw reply, "" for none."""
        return "" if self.error else wire_damage(self.reply, self.unreadable)

    @property
    def stumble(self) -> str:
        """The visible fault of this attempt: a kind of fault, REPEATED, REFUSED or TOOL; "" for none."""
        if self.error:
            return provider_fault(self.error, self.error_text)
        if self.wire:
            return self.wire
        if self.repeats:
            return REPEATED
        if any(call.is_refused for call in self.calls):
            return REFUSED
        return TOOL if any(call.failed for call in self.calls) else ""

    @property
    def failed(self) -> bool:
        """Tell whether the attempt failed."""
        return bool(self.error) or self.unreadable or self.repeats or any(call.failed for call in self.calls)

    def tries_again(self, before: Attempt) -> bool:
        """Tell whether this attempt repeats the failed attempt `before`."""
        if before.error or before.unreadable or before.repeats or self.error or self.unreadable:
            return True
        if not self.calls:
            return False
        lost = [call for call in before.calls if call.failed]
        if any(call.is_refused for call in lost):
            return True
        tools, arguments = {call.tool for call in lost}, {call.key[1] for call in lost}
        return any(call.tool in tools or call.key[1] in arguments for call in self.calls)


class RightForms(NamedTuple):
    """What the replies of a trial look like that went through."""

    replies: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    """Role → words of the format, and words of the arguments' names."""
    tools: Mapping[str, tuple[str, ...]]
    """Tool → names of its arguments."""


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
        """Tell whether the call of the point has any arguments."""
        calls = next((attempt.calls for attempt in self.attempts if attempt.calls and not attempt.repeats), [])
        return not calls or any(call.shape for call in calls)

    def retries(self, forms: RightForms) -> RetryRun | None:
        """Return the retries after a first failure that a retry may clear; None if there was no such failure, or no retry."""
        first = self.attempts[0]
        if not first.stumble or first.stumble in (REPEATED, TOOL) or not first.failed or len(self.attempts) < 2:
            return None
        failed: list[Retry] = []
        for before, now in pairwise(self.attempts):
            retry = _retry(before, now, forms)
            if not now.failed:
                return RetryRun(tuple(failed), retry)
            failed.append(retry)
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


@dataclass(frozen=True, slots=True)
class ReadTrial:
    """One trial, sorted into points."""

    arm: str
    task: str
    repeat: int
    attempts: tuple[Attempt, ...]
    points: tuple[DecisionPoint, ...]
    forms: RightForms
    extra_calls: int
    """Number of calls after the first of their move, which only tool faults can affect."""
    troubles: tuple[ToolTrouble, ...]
    worked: tuple[tuple[str, Shape], ...]
    """Tool and arguments of successful calls, each shape once."""
    exists: frozenset[str]
    """The existing tools."""
    retries: Mapping[str, int]
    """Retries by the client itself, by kind of failure."""


def read_points(trace: Trace, retries: Mapping[str, int] | None = None) -> ReadTrial:
    """Sort a trace into points. `retries`: the client's own, by kind of failure. Raises ValueError for impossible counts."""
    head, counts = trace.head, {} if retries is None else retries
    if not isinstance(counts, Mapping) or not all(isinstance(count, int) and 0 <= count < MAX_RETRIES for count in counts.values()):
        raise ValueError(f"trace {head.arm}/{head.task}/{head.repeat}: retries are not counts by kind")
    reading = _Reading()
    for place, event in enumerate(trace.events):
        try:
            reading.take(event)
        except ValueError as error:
            raise ValueError(f"trace {head.arm}/{head.task}/{head.repeat}: event {place}: {error}") from None
    points, extra = _points(reading.attempts)
    return ReadTrial(
        head.arm,
        head.task,
        head.repeat,
        tuple(reading.attempts),
        tuple(points),
        _right_forms(reading.attempts),
        extra,
        tuple(reading.troubles()),
        tuple(sorted({reading.made[key] for key, runs in reading.runs.items() if "" in runs})),
        frozenset(reading.exists),
        counts,
    )


# --- reading ---


class _Reading:
    """The state of reading one trace."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.shown: dict[tuple[str, str], tuple[Message, ...]] = {}
        self.results: dict[Key, str] = {}
        """The beginning of each successful call's result."""
        self.runs: dict[Key, list[str]] = {}
        self.made: dict[Key, tuple[str, Shape]] = {}
        self.exists: set[str] = set()

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
        self._hint(attempt)
        self.attempts.append(attempt)

    def _move(self, attempt: Attempt, event: ModelExchange) -> None:
        if event.move is None:
            return
        attempt.states = event.move_kind
        stated = event.value if event.move_kind == "answer" else event.move.get("text")
        attempt.is_plain = not attempt.reply.calls and isinstance(stated, str) and stated.strip() == attempt.reply.text.strip()
        attempt.frame = frozenset(words_of(attempt.reply.text)) - frozenset(words_of(repr(event.move)))
        attempt.calls = [_stated_call(call) for call in event.calls]
        if attempt.role == DECIDE:
            self._recalled(attempt)
        earlier = [self.results.get(call.key) for call in attempt.calls]
        if earlier and all(result is not None for result in earlier):
            text = "\n".join(message.content for message in attempt.messages)
            attempt.repeats = all(_stands_in(result or "", text) for result in earlier)

    def _recalled(self, attempt: Attempt) -> None:
        """Note which results the request shows, and which of their calls is made again."""
        text = "\n".join(message.content for message in attempt.messages)
        shown = {key: behind for key, result in self.results.items() if (behind := _behind(result, text)) is not None}
        attempt.distances = tuple(distance(behind) for behind in shown.values())
        places = [place for place, key in enumerate(shown) if any(call.key == key for call in attempt.calls)]
        if places:
            attempt.again = "last" if places[0] == len(shown) - 1 else "earlier"

    def _hint(self, attempt: Attempt) -> None:
        """Record the hint of a request's last message, unless it is a whole prompt, about unexecuted calls of the last reply."""
        last = next((a for a in reversed(self.attempts) if (a.role, a.scope) == (attempt.role, attempt.scope)), None)
        new = attempt.messages[-1:] if last is not None else ()
        if last is not None and new and len(new[0].content) < MAX_HINT_CHARS:
            for call in last.calls:
                if not call.runs:
                    call.hint = hint_of(new[0].content)

    def _run(self, event: ToolRun) -> None:
        call = _stated_call(event.call)
        error = "" if event.ok else event.error_type or "Error"
        stated = self._stated(call.key)
        if stated is not None:
            stated.runs.append(error)
            stated.told = f"{error} {event.data}" if error else ""
            stated.hint = "unknown" if error == "UnknownTool" else hint_of(event.data) if error in NEVER_RAN else ""
        if error != "UnknownTool":
            self.exists.add(call.tool)
        if error in NEVER_RAN:
            return
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
        for key, runs in self.runs.items():
            strikes = next((n for n, error in enumerate(runs) if not error), len(runs))
            if strikes:
                tool, shape = self.made[key]
                yield ToolTrouble(tool, shape, runs[0], strikes, strikes < len(runs))


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


def _retry(before: Attempt, now: Attempt, forms: RightForms) -> Retry:
    """Return what the request of a retry shows of what was wrong, and what there was to show."""
    signs, told = _signs(before, forms)
    shown = parts_shown(Request(before.messages), Request(now.messages), before.reply, signs, told)
    tellable = tellable_parts(signs, told)
    return Retry(shown & tellable, tellable)


def _signs(failed: Attempt, forms: RightForms) -> tuple[FaultSigns, str]:
    """Return the words by which a text would show the failure, and what the tool gave back.

    The right reply is not known, above all where no retry gave it; what other replies of the trial had stands for it.
    """
    if failed.error:
        return signs_of_provider(failed.error_text), ""
    if failed.unreadable:
        frame, arguments = forms.replies.get(failed.role, (frozenset(), frozenset()))
        called = frozenset(words_of(*(call.name for call in failed.reply.calls)))
        return FaultSigns(called | frame, frozenset(words_of(failed.wire_error or "")), frame | arguments), ""
    call = next((call for call in failed.calls if call.is_refused), None)
    if call is None:
        return FaultSigns(), ""
    made = frozenset(words_of(call.tool, *(name for name, _ in call.shape)))
    expected = frozenset(words_of(*forms.tools.get(call.tool, tuple(forms.tools) if call.hint == "unknown" else ())))
    return FaultSigns(made, frozenset(), expected, "", COMPLAINTS.get(KIND_OF_HINT[call.hint], frozenset())), call.told


def _right_forms(attempts: Sequence[Attempt]) -> RightForms:
    replies: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    tools: dict[str, tuple[str, ...]] = {}
    for attempt in attempts:
        if attempt.failed or attempt.wire or not attempt.states:
            continue
        replies.setdefault(attempt.role, (attempt.frame, frozenset(words_of(*(n for c in attempt.calls for n, _ in c.shape)))))
        tools |= {call.tool: tuple(name for name, _ in call.shape) for call in attempt.calls}
    return RightForms(replies, tools)


def _behind(result: str, text: str) -> int | None:
    """Return how many characters of a prompt stand behind the beginning of a result's last showing; None if it is not shown."""
    place = max(text.rfind(result), text.rfind(json.dumps(result, ensure_ascii=False)[1:-1]))
    return None if place < 0 or not result else len(text) - place - len(result)


def _stands_in(result: str, text: str) -> bool:
    """Tell whether a prompt shows a result, as it is or as JSON quotes it."""
    return result in text or json.dumps(result, ensure_ascii=False)[1:-1] in text


def _stated_call(call: TracedCall) -> StatedCall:
    named = call.arguments if isinstance(call.arguments, Mapping) else {}
    shape = tuple(sorted((str(name), _kind(value)) for name, value in named.items()))
    return StatedCall(call.tool, (call.tool, canonical(call.arguments)), shape)


def _kind(value: Any) -> str:
    """Return a value's JSON type."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    for types, name in ((int | float, "number"), (str, "string"), (Mapping, "object"), (list | tuple, "array")):
        if isinstance(value, types):
            return name
    return type(value).__name__
