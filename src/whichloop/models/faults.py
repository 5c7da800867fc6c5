"""Faults: drawing them, applying them to replies and moves, and keeping count of what became of each."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from whichloop.protocol import (
    Act,
    Answer,
    Move,
    Observation,
    PlannedCall,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolSpec,
    refs,
    render_value,
)
from whichloop.protocol.digest import unit
from whichloop.protocol.tool_calls import INTERNAL_ERROR, INVALID_PARAMS, McpError, ToolListing

from .feedback import texts_apart
from .profiles import Profile

NOT_DETERMINED = "not determined"
ANSWER = "answer"
SURE, UNSURE = 0.9, 0.3
"""How confident a model says it is, where a format asks."""
FLAKY_ATTEMPTS = 2

MAX_BASE_CHARS = 61
"""Characters of a tool's name that an invented one keeps: providers take names of 64."""

CALLING = ("decide", "select")
"""Roles whose requests are answered by calls."""

IMPLICIT = frozenset({"tool.garbage", "tool.lies", "tool.stale", "tool.empty", "tool.partial", "mcp.cut"})
"""Failures that a tool gives out for its result: a model may believe them."""

TOOL_FAMILIES = frozenset({"tool", "mcp", "inject"})
"""Families of what goes wrong where a tool runs."""

Clearing = Literal["feedback", "after", "never"]


class FaultPoint(NamedTuple):
    """A place in a trial's course: what is asked, and the first planned call of the move (or `answer`)."""

    role: str
    call: str

    def __str__(self) -> str:
        return f"{self.role}:{self.call}"


@dataclass(slots=True)
class Fault:
    """One fault of one trial and what became of it."""

    kind: str
    point: FaultPoint
    clearing: Clearing
    attempts: int
    """With `after`: the attempt (0-based) from which the fault is gone."""
    landed: bool = False
    absorbed: bool = False
    recovered: bool = False
    landed_at: int = field(default=0)
    """Number of receipts issued when it landed: what is issued later may be its recovery."""
    strikes: int = 0
    """How many runs of its call a tool's fault has disturbed."""
    believed: bool = False
    """Of an implicit failure: the model takes it for the result."""
    cured: bool = False
    """A new attempt of the model has cleared it: see `feedback`."""
    passed_over: bool = False
    """The loop asked the model again without having run the call that a tool's fault waits for, and no call before it failed."""

    @property
    def family(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def strikes_tools(self) -> bool:
        """Whether it strikes where a tool runs, not the model's reply."""
        return self.family in TOOL_FAMILIES or self.kind == "calls.late"

    def active(self, attempt: int) -> bool:
        """Return whether the fault still strikes at the (0-based) attempt."""
        if self.clearing == "feedback":
            return not self.cured
        return self.clearing == "never" or attempt < self.attempts


_NEEDS_ARGUMENTS = frozenset({"decision.missing_argument", "decision.wrong_type", "decision.wrong_value"})
"""Kinds that change an argument of a call."""

_NEEDS_RESULT = IMPLICIT | {"tool.huge"}
"""Kinds that change the result of a call, as all of the family `inject` do."""


def _applies(kind: str, role: str, call: PlannedCall | None, first: bool) -> bool:
    """Say whether a kind can strike at a point. This depends on the plan alone, so that every loop draws alike."""
    family = kind.partition(".")[0]
    if family in ("provider", "wire"):
        return True
    if role not in CALLING:
        return False
    if call is None:
        return kind == "decision.never_finish" and not first  # a call was made before, which can be made again
    if kind in _NEEDS_ARGUMENTS:
        return bool(call.arguments)
    if kind in _NEEDS_RESULT or family == "inject":
        return not call.fails
    if kind == "calls.too_early":  # a request to select asks for the calls of one task, and no other belongs beside them
        return role == "decide"
    if kind == "decision.no_tool":
        return first
    if kind == "decision.repeated_call":  # a request to select shows no other results than those that its call came from
        return not first and (role == "decide" or any(refs(call.arguments)))
    return kind != "decision.never_finish"


def draw(profile: Profile, key: tuple[object, ...], point: FaultPoint, call: PlannedCall | None, first: bool) -> Fault | None:
    """Draw the fault of a point, if any: one draw, keyed by trial and point, never by loop or scope.

    Where the profile lists its faults, that of the point is taken; what clears it and whether it is believed is drawn alike.
    """
    if profile.faults is not None:
        kind = profile.placed.get(str(point))
        return None if kind is None or not _applies(kind, point.role, call, first) else _fault(profile, kind, key, point)
    if not profile.rates:
        return None
    u = unit(*key, "fault", point)
    for kind, rate in sorted(profile.rates.items()):
        if not _applies(kind, point.role, call, first):
            continue
        if u < rate:
            return _fault(profile, kind, key, point)
        u -= rate
    return None


def _fault(profile: Profile, kind: str, key: tuple[object, ...], point: FaultPoint) -> Fault:
    believed = kind in IMPLICIT and unit(*key, "notices", point) >= profile.notices
    return Fault(kind, point, *_clearing(profile, kind, key, point), believed=believed)


def _clearing(profile: Profile, kind: str, key: tuple[object, ...], point: FaultPoint) -> tuple[Clearing, int]:
    if kind == "tool.flaky":
        return "after", FLAKY_ATTEMPTS
    if kind.endswith(".slow") or kind == "calls.late":
        return "after", 1
    if kind == "calls.too_early":  # no prompt tells the model of it, so that it could mend it
        return "never", 0
    if kind.startswith("inject."):
        return "never", 0  # what a tool reads stays as it is
    u = unit(*key, "clears", point)
    if u < profile.clears.feedback:
        return "feedback", 0
    if u < profile.clears.feedback + profile.clears.after:
        return "after", geometric(profile.clears.attempts, unit(*key, "attempts", point))
    return "never", 0


def geometric(mean: float, u: float) -> int:
    """Return the number of attempts up to the first that succeeds, each with chance 1 / `mean`, from a draw in [0, 1).

    No loop's limit is thereby the exact number that a fault takes. A larger mean never gives a smaller number for the same draw.
    """
    return 1 if mean <= 1 else 1 + int(math.log1p(-u) / math.log1p(-1 / mean))


# --- wire ---


def spoil(kind: str, reply: Reply) -> Reply:
    """Spoil a reply as a bad wire does: the raw arguments of its calls if it has any, else its text.

    Text beside calls is an aside: a design must not escape by having the model talk. A reply that is cut says so in its
    `finish_reason`; an empty one has ended of itself.
    """
    return next(spoiled_forms(kind, reply))


def spoiled_forms(kind: str, reply: Reply) -> Iterator[Reply]:
    """Yield the ways in which a kind spoils a reply, the usual one first: one may show in a format in which another does not."""
    if kind == "wire.empty":
        yield emptied(kind, reply)
    elif not reply.calls:
        for text in _spoiled_texts(kind, reply.text):
            yield _cut_short(kind, replace(reply, text=text))
    else:
        for arguments in zip(*(_spoiled_texts(kind, call.arguments) for call in reply.calls), strict=True):
            calls = (replace(call, arguments=text) for call, text in zip(reply.calls, arguments, strict=True))
            yield _cut_short(kind, replace(reply, calls=tuple(calls)))


def emptied(kind: str, reply: Reply) -> Reply:
    """Return a reply of which a kind of fault leaves nothing."""
    return _cut_short(kind, replace(reply, text="", calls=(), finish_reason="stop"))


def _cut_short(kind: str, reply: Reply) -> Reply:
    return replace(reply, finish_reason="length") if kind == "wire.truncated" else reply


def _spoiled_texts(kind: str, text: str) -> list[str]:
    cuts = [text[: len(text) // 2], text[: len(text) // 4], text[: len(text) // 8]]
    if kind == "wire.malformed":
        broken = [changed for marks in (_NO_OPENING, _NO_COLON) if (changed := text.translate(marks)) != text]
        return [*broken, *cuts][:3]
    if kind == "wire.truncated":
        return cuts
    if kind == "wire.fenced":
        return [f"Sure, here is my reply:\n```\n{text}\n```\nLet me know how it goes."]
    return [f"{text}\n{text}"]  # wire.duplicated


_NO_OPENING = {ord(char): None for char in "{[<"}
_NO_COLON = {ord(":"): None}


# --- decisions ---


def disturb(
    kind: str, move: Move, earlier_calls: Mapping[str, ToolCall], specs: Mapping[str, ToolSpec], guess: object = NOT_DETERMINED
) -> tuple[Move, ...]:
    """Return a move as a confused model makes it, in order of preference; the move itself if the kind finds nothing to change.

    `earlier_calls`: calls made before, by planned id, in order. `specs`: tools by name. `guess`: what the model would answer now.
    """
    if kind in ("decision.early_finish", "decision.no_tool"):
        return answer_options("I can answer this already.", guess, SURE)
    if kind in ("decision.repeated_call", "decision.never_finish"):
        return (Act("I should make sure of this.", (list(earlier_calls.values())[-1],)),) if earlier_calls else (move,)
    if not isinstance(move, Act) or not move.calls:
        return (move,)
    first = _confuse(kind, move.calls[0], specs.get(move.calls[0].name))
    return (replace(move, calls=(first, *move.calls[1:])),)


def answer_options(thought: str, value: object, confidence: float) -> tuple[Move, ...]:
    """Return an answer in the ways that formats differ in: a value, text, with a confidence, without a value, prose."""
    text = render_value(value)
    rated = (Answer(thought, value, confidence), Answer(thought, text, confidence))
    return (Answer(thought, value), Answer(thought, text), *rated, Answer(thought), Answer("", value), Answer("", text), Text(text))


def _confuse(kind: str, call: ToolCall, spec: ToolSpec | None) -> ToolCall:
    arguments = dict(call.arguments)
    names = [name for name in (spec.parameters.get("required", ()) if spec else ()) if name in arguments] or list(arguments)
    if kind == "decision.unknown_tool":
        return ToolCall(f"{call.name[:MAX_BASE_CHARS]}_v2", arguments)
    if kind == "decision.extra_argument":
        return ToolCall(call.name, arguments | {"verbose": True})
    if not names:
        return call
    last = names[-1]
    if kind == "decision.missing_argument":
        del arguments[last]
    elif kind == "decision.wrong_type":
        arguments[last] = {"about": arguments[last]}
    elif kind == "decision.wrong_value":
        arguments[last] = mislead(arguments[last])
    return ToolCall(call.name, arguments)


def mislead(value: object) -> object:
    """Return another value of the same kind, never equal to the one given."""
    if value is None:
        return 42
    if isinstance(value, bool):
        return not value
    if isinstance(value, float) and not abs(value) < _NEARLY_INFINITE:
        return value / 2
    if isinstance(value, int | float):
        return value + 1 + abs(value) // 10  # beyond any scorer's tolerance
    if isinstance(value, str):
        other = value.translate(_OTHER_DIGITS)
        return other if other != value else f"{value} (old)"
    if isinstance(value, list | tuple):
        return [mislead(value[0]), *value[1:]] if value else [0]
    if isinstance(value, dict):
        first = next(iter(value), None)
        return {"value": 0} if first is None else value | {first: mislead(value[first])}
    return 0


def distorted(kind: str, value: object) -> object:
    """Return what an implicit failure of a tool gives in the place of its result; never equal to the one given."""
    if kind == "tool.stale":
        return _outdated(value)
    if kind == "mcp.cut":
        text = render_value(value)
        return text[: len(text) // 2] if text else mislead(value)
    if kind == "tool.empty" and value not in (None, "", [], {}, ()):
        return "" if isinstance(value, str) else [] if isinstance(value, list | tuple) else {} if isinstance(value, dict) else None
    if kind == "tool.partial" and isinstance(value, str | list | tuple) and value:
        return value[: len(value) // 2] if isinstance(value, str) else list(value[: len(value) // 2])
    if kind == "tool.partial" and isinstance(value, dict) and value:
        return dict(list(value.items())[: len(value) // 2])
    return mislead(value)


def _outdated(value: object) -> object:
    """Return a value as it may have been before: a smaller number, earlier digits, a list without its last entry."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NEARLY_INFINITE:
        return value - 1 - abs(value) // 10
    if isinstance(value, str):
        earlier = value.translate(_EARLIER_DIGITS)
        return earlier if earlier != value else mislead(value)
    if isinstance(value, list | tuple) and value:
        return list(value[:-1])
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return value | {last: _outdated(value[last])}
    return mislead(value)


_NEARLY_INFINITE = 1e300
_OTHER_DIGITS = str.maketrans("0123456789", "1234567890")
_EARLIER_DIGITS = str.maketrans("123456789", "012345678")


# --- feedback ---

_WORD = re.compile(r"[^\W\d_]+")


def shows_feedback(before: Request, now: Request, last_reply: Reply) -> bool:
    """Whether `now` says more than `before` did, the model's own reply and counters aside.

    Compared as bags of words without digits, so that it holds for any loop's wording and layout.
    """
    texts_before, texts_now = texts_apart(before, now)
    if not texts_now:
        return False
    calls = [f"{call.name} {call.arguments}" for call in last_reply.calls]
    said = _words([*texts_before, last_reply.text, *calls])
    return any(times > said[word] for word, times in _words(texts_now).items())


def _words(texts: Iterable[str]) -> Counter[str]:
    return Counter(itertools.chain.from_iterable(map(_WORD.findall, texts)))


LIST_CHANGED, DRIFTED, ERROR = "mcp.list_changed", "mcp.drifted", "mcp.error"
"""Kinds that leave a call without a result. The fourth, `mcp.cut`, is among the implicit ones of `faults`."""
NEW_ARGUMENT: Final = "revision"
"""What a drifted schema requires beside the arguments that it had."""


class ListFaults:
    """The faults of one trial that change what its server lists."""

    def __init__(self) -> None:
        self._by_tool: dict[str, Fault] = {}
        self._changes = 0

    def strike(self, fault: Fault, call: ToolCall) -> Observation:
        """Return what a call gives under a fault that leaves it without a result, and let the list show it."""
        if fault.kind == ERROR:
            return _failed(call, McpError(INTERNAL_ERROR, "Internal error"))
        self._by_tool[call.name] = fault
        self._changes += 1
        if fault.kind == LIST_CHANGED:
            return _failed(call, McpError(INVALID_PARAMS, f"Unknown tool: {call.name}"))
        refused = f"Input validation error: {new_argument(call.arguments)!r} is a required property"
        return Observation(call.name, "error", refused, "InvalidArguments", None, call.call_id)

    def listed(self, specs: tuple[ToolSpec, ...]) -> ToolListing:
        """Return the tools as the server lists them now. A fault shows until its tool's next call would succeed."""
        if not self._by_tool:
            return ToolListing(specs)
        specs_now = []
        for spec in specs:
            fault = self._by_tool.get(spec.name)
            if fault is None or not fault.active(fault.strikes):
                specs_now.append(spec)
            elif fault.kind == DRIFTED:
                specs_now.append(drifted(spec))
        return ToolListing(tuple(specs_now), self._changes)


def drifted(spec: ToolSpec) -> ToolSpec:
    """Return a tool whose schema requires one argument more than it did; calls as before are refused."""
    properties = dict(spec.parameters.get("properties", {}))
    name = new_argument(properties)
    required = [*spec.parameters.get("required", ()), name]
    parameters = {**spec.parameters, "properties": {**properties, name: {"type": "string"}}, "required": required}
    return replace(spec, parameters=parameters)


def new_argument(names: object) -> str:
    """Return the name of the argument that a drifted schema requires; `names`: a container of the names that it has."""
    name = NEW_ARGUMENT
    while isinstance(names, (dict, list, tuple)) and name in names:
        name += "_"
    return name


def _failed(call: ToolCall, error: McpError) -> Observation:
    return Observation(call.name, "error", str(error), type(error).__name__, None, call.call_id)
