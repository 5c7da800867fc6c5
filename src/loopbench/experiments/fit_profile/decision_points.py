"""From a trace back to points: where the model was asked, how often it tried, and what went wrong at its first attempt.

A trace is data from anywhere: what is no trace is a ValueError of one line, whatever it holds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from loopbench.metrics.trace import NEVER_RAN
from loopbench.models.faults import CALLING, shows_feedback
from loopbench.protocol import Message, NativeCall, Reply, Request, render_value
from loopbench.protocol.chat import MessageRole
from loopbench.protocol.digest import canonical_json

REPEATED = "repeated"
"""A call made again although it had worked: `decision.repeated_call` or `never_finish`, as what follows at the point has it."""
REFUSED = "refused"
"""A call that could not run: which kind of mistake it is, the tool's other calls tell."""
TOOL = "tool"
"""A call that ran and failed."""
MIN_RUNS = 3
"""So many failures in a row, feedback shown, and no success: the fault is taken to stay for good."""

Key = tuple[str, str]
"""A call: the tool's name and its arguments as canonical JSON."""
Shape = tuple[tuple[str, str], ...]
"""Names and JSON types of a call's arguments, sorted."""
Hint = Literal["unknown", "missing", "extra", "type", ""]
"""What the text about a refused call says."""


@dataclass(slots=True)
class StatedCall:
    """A call that a move states, and what its runs gave: the error's type of each, "" for a success."""

    tool: str
    key: Key
    shape: Shape
    runs: list[str] = field(default_factory=list)
    hint: Hint = ""

    @property
    def is_refused(self) -> bool:
        """It never ran."""
        return not self.runs or self.runs[-1] in NEVER_RAN

    @property
    def failed(self) -> bool:
        return self.is_refused or self.runs[-1] != ""


@dataclass(slots=True)
class Attempt:
    """One request and what came of it."""

    role: str
    scope: str
    messages: tuple[Message, ...]
    reply: Reply
    seconds: float = 0.0
    input_tokens: int | None = None
    forced: bool = False
    """A tool had to be called."""
    error: str = ""
    """Kind of a provider's failure."""
    error_text: str = ""
    unreadable: bool = False
    states: str = ""
    """Kind of move; empty where there is none."""
    is_plain: bool = False
    """The reply's text is the move as it stands: whatever is lost of it, it is read."""
    calls: list[StatedCall] = field(default_factory=list)
    repeats: bool = False
    """All that is called had worked before, and the request showed what it gave."""

    @property
    def wire(self) -> str:
        """Kind of damage that the raw reply shows, "" for none."""
        return "" if self.error else wire_damage(self.reply, self.unreadable)

    @property
    def stumble(self) -> str:
        """What went wrong, as far as this attempt tells: a kind of fault, or REPEATED, REFUSED or TOOL; "" for nothing."""
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
        """The point was not passed."""
        return bool(self.error) or self.unreadable or self.repeats or any(call.failed for call in self.calls)

    def tries_again(self, before: Attempt) -> bool:
        """Whether this is another attempt at what `before` failed at."""
        if before.error or before.unreadable or before.repeats or self.error or self.unreadable:
            return True
        if not self.calls:
            return False
        lost = [call for call in before.calls if call.failed]
        if any(call.is_refused for call in lost):
            return True
        tools, arguments = {call.tool for call in lost}, {call.key[1] for call in lost}
        return any(call.tool in tools or call.key[1] in arguments for call in self.calls)


@dataclass(slots=True)
class DecisionPoint:
    """A place in a trial's course, and the attempts at it, the first of which shows its fault."""

    role: str
    is_first: bool
    """The first at which the trial's model was to call something."""
    attempts: list[Attempt]

    @property
    def states_calls(self) -> bool | None:
        """Whether the point is one of a call, by its first sound move; None where there is none."""
        for attempt in self.attempts:
            if attempt.states and not attempt.repeats:
                return bool(attempt.calls)
        return None

    @property
    def has_arguments(self) -> bool:
        """Of a point of a call: whether that has any."""
        calls = next((attempt.calls for attempt in self.attempts if attempt.calls and not attempt.repeats), [])
        return not calls or any(call.shape for call in calls)

    def cleared(self) -> tuple[Literal["feedback", "after", "never"], int] | None:
        """What made its failure go away, and after how many attempts; None where that cannot be told."""
        failures = next((n for n, attempt in enumerate(self.attempts) if not attempt.failed), None)
        shown = [n for n in range(1, len(self.attempts)) if _shows_feedback(self.attempts[n - 1], self.attempts[n])]
        if failures == 0 or not self.attempts[0].stumble:
            return None
        if failures is None:
            return ("never", len(self.attempts)) if len(self.attempts) >= MIN_RUNS and shown else None
        if shown and shown[0] == failures:
            return "feedback", failures
        return "after", failures


@dataclass(frozen=True, slots=True)
class ToolTrouble:
    """The first run of a call failed."""

    tool: str
    shape: Shape
    error: str
    strikes: int
    """Runs that failed, one after the other."""
    worked: bool
    """The same call worked later in the trial."""


@dataclass(frozen=True, slots=True)
class ReadTrial:
    """One trial, read."""

    arm: str
    task: str
    repeat: int
    attempts: tuple[Attempt, ...]
    points: tuple[DecisionPoint, ...]
    extra_calls: int
    """Calls beside the first of their move: points of the tools' faults only."""
    troubles: tuple[ToolTrouble, ...]
    worked: tuple[tuple[str, Shape], ...]
    """Tool and arguments of calls that worked, each shape once."""
    exists: frozenset[str]
    """Tools that there are."""
    retries: Mapping[str, int]
    """The client's own, by kind of failure."""


def read_course(trace: Mapping[str, Any]) -> ReadTrial:
    """A trace as points. Raises ValueError, in one line, for what is no trace."""
    if not isinstance(trace, Mapping):
        raise ValueError(f"no trace but {_kind(trace)}")
    try:
        return _Reading().course(trace)
    except ValueError as error:
        name = "/".join(render_value(trace.get(part)) for part in ("arm", "task", "repeat"))
        raise ValueError(f"trace {' '.join(name.split())[:200]}: {error}") from None


# --- what a raw reply shows ---

_FENCE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPENING, _CLOSING = "{[<", "}]>"


def wire_damage(reply: Reply, unreadable: bool) -> str:
    """Kind of `wire.` fault that a reply looks like; "" for none.

    The raw arguments of calls are looked at if any, else the text. A fence or a doubled reply counts though it was read.
    """
    if not reply.calls and not reply.text.strip():
        return "wire.empty"
    parts = [call.arguments for call in reply.calls] or [reply.text]
    if any(is_fenced(part) for part in parts):
        return "wire.fenced"
    if any(is_doubled(part) for part in parts):
        return "wire.duplicated"
    if not unreadable:
        return ""
    if any(_has(part, _CLOSING) and not _has(part, _OPENING) for part in parts):
        return "wire.malformed"
    return "wire.truncated" if any(map(is_cut, parts)) else "wire.malformed"


def _has(text: str, chars: str) -> bool:
    return any(char in text for char in chars)


def is_fenced(text: str) -> bool:
    """The whole of a reply stands in a code fence: outside of it is prose at most."""
    found = _FENCE.search(text)
    if found is None or not found.group(1).strip():
        return False
    return not _has(text[: found.start()] + text[found.end() :], _OPENING)


def is_doubled(text: str) -> bool:
    """The same text twice, one below the other, or one JSON object right after the other."""
    text = text.strip()
    for gap in range(4):
        size, odd = divmod(len(text) - gap, 2)
        if size < 1 or odd or text[:size] != text[size + gap :]:
            continue
        between = text[size : size + gap]
        if not between.strip() and ("\n" in between or (text[0] == "{" and text[-1] == "}")):
            return True
    return False


def is_cut(text: str) -> bool:
    """It ends before what was opened is closed: a quote, a bracket, an XML element, or the sections that DSPy asks for.

    Lines of labelled text have nothing to close: what cannot be read of them is taken to be cut.
    """
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", text)
    if '"' in bare or sum(map(bare.count, "{[")) > sum(map(bare.count, "}]")):
        return True
    if "[[ ##" in text:
        return "[[ ## completed" not in text
    if not _has(text, _OPENING):
        return re.search(r"^\w+:", text, re.MULTILINE) is not None
    return any(f"</{name}>" not in text for name in re.findall(r"<(\w+)>", text)) or bool(re.search(r"<[^>]*$", text))


# --- what a provider's failure is ---

_PROVIDER = {
    "rate_limit": "provider.rate_limit",
    "server": "provider.server",
    "timeout": "provider.timeout",
    "connection": "provider.dropped",
}
SETTLED = ("provider.refused", "provider.auth", "provider.bad_request", "context_overflow", "provider")
"""Failures that are no chance: what was asked for is not to be had, however often."""


def provider_fault(kind: str, text: str = "") -> str:
    """The fault that an error event, or a retry of the client's, shows; "" for what is no chance."""
    found = _PROVIDER.get(kind.removeprefix("provider."), "")
    if found == "provider.dropped" and re.search(r"in the middle|incomplete|chunked", text):
        return "provider.cut"
    if found == "provider.server" and re.search(r"\bno JSON|not valid JSON|JSONDecode|Expecting value", text):
        return "provider.garbled"
    return found


# --- reading ---


class _Reading:
    """The state of reading one trace."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.shown: dict[tuple[str, str], tuple[Message, ...]] = {}
        self.results: dict[Key, str] = {}
        """What calls gave that worked, the start of it."""
        self.runs: dict[Key, list[str]] = {}
        self.made: dict[Key, tuple[str, Shape]] = {}
        self.exists: set[str] = set()

    def course(self, trace: Mapping[str, Any]) -> ReadTrial:
        arm, task, repeat = _take(trace, "arm", str), _take(trace, "task", str), _take(trace, "repeat", int)
        for number, event in enumerate(_take(trace, "events", list), 1):
            try:
                self._event(event)
            except ValueError as error:
                raise ValueError(f"event {number}: {error}") from None
        points, extra = _points(self.attempts)
        worked = {self.made[key] for key, runs in self.runs.items() if "" in runs}
        return ReadTrial(
            arm,
            task,
            repeat,
            tuple(self.attempts),
            tuple(points),
            extra,
            tuple(self._troubles()),
            tuple(sorted(worked)),
            frozenset(self.exists),
            _retries(trace),
        )

    def _event(self, event: Any) -> None:
        if not isinstance(event, Mapping):
            raise ValueError(f"an event must be an object, not {_kind(event)}")
        kind = event.get("event")
        if kind == "ask":
            self._ask(event)
        elif kind == "tool":
            self._tool(event)

    def _ask(self, event: Mapping[str, Any]) -> None:
        role, scope = _take(event, "role", str), _take(event, "scope", str, "")
        before = self.shown.get((role, scope), ())
        same = _take(event, "same", int, 0)
        if not 0 <= same <= len(before):
            raise ValueError(f"same: {same} of {len(before)} messages")
        messages = before[:same] + tuple(map(_message, _take(event, "messages", list)))
        self.shown[role, scope] = messages
        attempt = Attempt(role, scope, messages, _reply(event), _seconds(event), _input_tokens(event))
        attempt.forced = _take(event, "tool_choice", str, "auto") not in ("auto", "none")
        attempt.unreadable = "wire_error" in event
        if "error" in event:
            error = _take(event, "error", Mapping)
            attempt.error, attempt.error_text = _take(error, "kind", str), _take(error, "message", str, "")
        elif "move" in event:
            self._move(attempt, _take(event, "move", Mapping))
        self._hint(attempt)
        self.attempts.append(attempt)

    def _move(self, attempt: Attempt, move: Mapping[str, Any]) -> None:
        attempt.states = _take(move, "move", str)
        stated = move.get("value") if attempt.states == "answer" else move.get("text")
        attempt.is_plain = not attempt.reply.calls and isinstance(stated, str) and stated.strip() == attempt.reply.text.strip()
        if attempt.states != "act":
            return
        for call in _take(move, "calls", list):
            if not isinstance(call, Mapping):
                raise ValueError(f"a call must be an object, not {_kind(call)}")
            attempt.calls.append(_call(_take(call, "name", str), call.get("arguments")))
        known = [self.results.get(call.key) for call in attempt.calls]
        if known and all(result is not None for result in known):
            text = "\n".join(message.content for message in attempt.messages)
            attempt.repeats = all(_stands_in(result or "", text) for result in known)

    def _hint(self, attempt: Attempt) -> None:
        """What a request says about calls of the last reply that nobody tried to run: a message of its own, no whole prompt."""
        last = next((a for a in reversed(self.attempts) if (a.role, a.scope) == (attempt.role, attempt.scope)), None)
        new = attempt.messages[-1:] if last is not None else ()
        if last is not None and new and len(new[0].content) < _MAX_HINT:
            for call in last.calls:
                if not call.runs:
                    call.hint = hint_of(new[0].content)

    def _tool(self, event: Mapping[str, Any]) -> None:
        call = _call(_take(event, "tool", str), event.get("arguments"))
        error = "" if _take(event, "status", str) == "success" else _take(event, "error_type", str, "Error") or "Error"
        text = _take(event, "data", str)
        stated = self._stated(call.key)
        if stated is not None:
            stated.runs.append(error)
            stated.hint = "unknown" if error == "UnknownTool" else hint_of(text) if error in NEVER_RAN else ""
        if error != "UnknownTool":
            self.exists.add(call.tool)
        if error in NEVER_RAN:
            return
        self.runs.setdefault(call.key, []).append(error)
        self.made[call.key] = (call.tool, call.shape)
        if not error:
            self.results[call.key] = text[:_COMPARED]

    def _stated(self, key: Key) -> StatedCall | None:
        """The call that a run belongs to: of each scope's latest reply, the one that is still waiting, else one tried again."""
        latest: dict[str, Attempt] = {}
        for attempt in self.attempts:
            if attempt.calls:
                latest[attempt.scope] = attempt
        matching = [call for attempt in reversed(latest.values()) for call in attempt.calls if call.key == key]
        return next((call for call in matching if not call.runs), next(iter(matching), None))

    def _troubles(self) -> Iterator[ToolTrouble]:
        for key, runs in self.runs.items():
            strikes = next((n for n, error in enumerate(runs) if not error), len(runs))
            if strikes:
                tool, shape = self.made[key]
                yield ToolTrouble(tool, shape, runs[0], strikes, strikes < len(runs))


_MAX_HINT = 2_000
_COMPARED = 80
"""Characters of a result that are looked for in a prompt."""


def _points(attempts: Sequence[Attempt]) -> tuple[list[DecisionPoint], int]:
    """Attempts sorted into points; and how many calls were made beside the first of their move.

    As in the tunnel, roles that state no calls are one point per trial and scope, and `recover` is one per failed call.
    """
    points: list[DecisionPoint] = []
    here: dict[tuple[str, ...], DecisionPoint] = {}
    seen: set[Key] = set()
    extra, failed_call = 0, ""
    any_calling = False
    for attempt in attempts:
        if attempt.error in SETTLED:
            continue
        calling = attempt.role in CALLING
        place = (attempt.role, attempt.scope, failed_call if attempt.role == "recover" else "")
        point = here.get(place)
        if point is None or (calling and not (point.attempts[-1].failed and attempt.tries_again(point.attempts[-1]))):
            point = here[place] = DecisionPoint(attempt.role, calling and not any_calling, [])
            points.append(point)
            any_calling = any_calling or calling
        point.attempts.append(attempt)
        extra += len({call.key for call in attempt.calls[1:]} - seen)
        seen |= {call.key for call in attempt.calls}
        failed_call = next((str(call.key) for call in attempt.calls if call.failed), failed_call)
    return points, extra


def _shows_feedback(before: Attempt, now: Attempt) -> bool:
    return shows_feedback(Request(before.messages), Request(now.messages), before.reply)


def _stands_in(result: str, text: str) -> bool:
    """Whether a prompt shows a result, as it is or as JSON quotes it."""
    return result in text or json.dumps(result, ensure_ascii=False)[1:-1] in text


_HINTS: tuple[tuple[Hint, re.Pattern[str]], ...] = (
    ("unknown", re.compile(r"\btool\b[^:]{0,80}\b(not found|not exist|not available)|\b(unknown|no such) tool", re.I)),
    ("missing", re.compile(r"missing|is required|required argument", re.I)),
    ("extra", re.compile(r"unexpected|unknown argument|not accept|extra (input|argument)|not permitted", re.I)),
    ("type", re.compile(r"should be|must be|valid|type", re.I)),
)


def hint_of(text: str) -> Hint:
    """What a message about a refused call says is wrong with it."""
    return next((hint for hint, pattern in _HINTS if pattern.search(text[:_MAX_HINT])), "")


def _call(tool: str, arguments: Any) -> StatedCall:
    try:
        made = canonical_json(arguments)
    except (TypeError, ValueError, RecursionError):
        made = render_value(arguments)
    named = arguments if isinstance(arguments, Mapping) else {}
    return StatedCall(tool, (tool, made), tuple(sorted((str(name), _kind(value)) for name, value in named.items())))


def _message(data: Any) -> Message:
    if not isinstance(data, Mapping):
        raise ValueError(f"a message must be an object, not {_kind(data)}")
    role: Any = _take(data, "role", str)
    if role not in get_args(MessageRole):
        raise ValueError(f"a message's role: {render_value(role)[:40]!r}")
    functions = [_take(item, "function", Mapping) for item in _objects(data, "tool_calls")]
    calls = tuple(NativeCall("", _take(item, "name", str), _take(item, "arguments", str)) for item in functions)
    return Message(role, _take(data, "content", str, ""), calls)


def _reply(event: Mapping[str, Any]) -> Reply:
    calls = [NativeCall("", _take(item, "name", str), _take(item, "arguments", str)) for item in _objects(event, "calls")]
    return Reply(_take(event, "reply", str, ""), tuple(calls))


def _seconds(event: Mapping[str, Any]) -> float:
    try:
        value = float(_take(event, "seconds", (int, float), 0.0))
    except OverflowError:
        value = math.inf
    if not 0 <= value < math.inf:
        raise ValueError("seconds: must be a number from 0")
    return value


def _input_tokens(event: Mapping[str, Any]) -> int | None:
    tokens = _take(event, "tokens", list, [])
    if not tokens:
        return None
    if not isinstance(tokens[0], int) or tokens[0] < 0:
        raise ValueError("tokens: must be counts")
    return tokens[0]


def _retries(trace: Mapping[str, Any]) -> Mapping[str, int]:
    retries: Mapping[Any, Any] = _take(trace, "retries", Mapping, {})
    if not all(isinstance(kind, str) and isinstance(count, int) and 0 <= count < _MAX_RETRIES for kind, count in retries.items()):
        raise ValueError("retries: must be counts by kind")
    return retries


_MAX_RETRIES = 10**6
_NEEDED: Any = object()
T = TypeVar("T")


def _take(data: Mapping[str, Any], name: str, kind: type[T] | tuple[type[T], ...], default: Any = _NEEDED) -> T:
    """A field of a kind. Raises ValueError where it is missing, or of another."""
    value = data.get(name, default)
    if value is _NEEDED:
        raise ValueError(f"{name}: is missing")
    if not isinstance(value, kind):
        raise ValueError(f"{name}: cannot be {_kind(value)}")
    return value


def _objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = _take(data, name, list, [])
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError(f"{name}: holds {_kind(item)}, not an object")
    return items


def _kind(value: Any) -> str:
    """A value's JSON type."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    for types, name in ((int | float, "number"), (str, "string"), (Mapping, "object"), (list | tuple, "array")):
        if isinstance(value, types):
            return name
    return type(value).__name__
