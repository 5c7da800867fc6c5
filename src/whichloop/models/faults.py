"""Faults: drawing them, applying them to replies, moves and results, and keeping count of what became of each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from whichloop.protocol.chat import Reply
from whichloop.protocol.json_text import unit
from whichloop.protocol.moves import Act, Answer, Codec, Inexpressible, Move, Text, WireError
from whichloop.protocol.plan import PlannedCall, refs
from whichloop.protocol.tool_calls import INTERNAL_ERROR, INVALID_PARAMS, McpError, Observation, ToolCall, ToolListing, ToolSpec
from whichloop.protocol.values import render_value

from .profiles import OF_CALLS, Profile

NOT_DETERMINED = "not determined"
ANSWER = "answer"
SURE, UNSURE = 0.9, 0.3
"""How confident a model says it is, where a format asks."""
FLAKY_ATTEMPTS = 2
CALLING = ("decide", "select")
"""Roles whose requests are answered by calls."""
IMPLICIT = frozenset({"tool.garbage", "tool.lies", "tool.stale", "tool.empty", "tool.partial", "mcp.cut"})
"""Failures that a tool gives out for its result: a model may believe them."""

Clearing = Literal["shown", "after", "never"]


class FaultPoint(NamedTuple):
    """A place in a trial's course: what is asked, and the first planned call of the move (or `answer`); or a call of a tool."""

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
    """With `after`: the attempt (0-based) from which the fault is gone. With `shown`, a new attempt clears it: see `feedback`."""
    landed: bool = False
    absorbed: bool = False
    recovered: bool = False
    landed_at: int = 0
    """Number of receipts issued when it landed: what is issued later may be its recovery."""
    strikes: int = 0
    """How many runs of its call a tool's fault has disturbed."""
    believed: bool = False
    """Of an implicit failure: the model takes it for the result."""
    cured: bool = False
    label: str = ""
    """Of the instruction that it has planted in a result."""

    @property
    def family(self) -> str:
        return self.kind.partition(".")[0]

    def active(self, attempt: int) -> bool:
        """Return whether the fault still strikes at the (0-based) attempt."""
        if self.clearing == "shown":
            return not self.cured
        return self.clearing == "never" or attempt < self.attempts


# --- drawing ---


def draw(
    profile: Profile, key: tuple[object, ...], point: FaultPoint, call: PlannedCall | None, first: bool, made: str = ""
) -> Fault | None:
    """Draw the fault of a point, if any: one draw, keyed by trial and point, never by loop or scope.

    `made`: CALL digest of a call that a tool is about to run, which keys the draw: the call meets the same fault whoever plans it.
    Where the profile lists its faults, that of the point is taken; what clears it and whether it is believed is drawn alike.
    """
    rates, at = profile.rates, made or point
    if profile.faults is not None:
        rates = {kind: 1.0 for placed, kind in profile.placed.items() if placed == str(point)}
    u = unit(*key, "fault", at) if rates else 1.0
    for kind, rate in sorted(rates.items()):
        if kind in OF_CALLS if made else _applies(kind, point.role, call, first):
            if u < rate:
                believed = kind in IMPLICIT and unit(*key, "notices", at) >= profile.notices
                return Fault(kind, point, *_clearing(profile, kind, key, at), believed=believed)
            u -= rate
    return None


def _applies(kind: str, role: str, call: PlannedCall | None, first: bool) -> bool:
    """Say whether a kind can strike a reply at a point. This depends on the plan alone, so that every loop draws alike."""
    if kind in OF_CALLS:
        return False
    if kind.startswith(("provider.", "wire.")):
        return True
    if role not in CALLING:
        return False
    if call is None:
        return kind == "decision.never_finish" and not first  # a call was made before, which can be made again
    match kind:
        case "decision.missing_argument" | "decision.wrong_type" | "decision.wrong_value":
            return bool(call.arguments)
        case "calls.too_early":  # a request to select asks for the calls of one task, and no other belongs beside them
            return role == "decide"
        case "decision.no_tool":
            return first
        case "decision.repeated_call":  # a request to select shows no other results than those that its call came from
            return not first and (role == "decide" or any(refs(call.arguments)))
    return kind != "decision.never_finish"


def _clearing(profile: Profile, kind: str, key: tuple[object, ...], at: FaultPoint | str) -> tuple[Clearing, int]:
    if kind == "tool.flaky":
        return "after", FLAKY_ATTEMPTS
    if kind.endswith(".slow") or kind == "calls.late":
        return "after", 1
    if kind == "calls.too_early" or kind.startswith("inject."):  # no prompt tells of the one; what a tool reads stays as it is
        return "never", 0
    if unit(*key, "clears", at) < profile.clears.never:
        return "never", 0
    if kind in OF_CALLS or kind.startswith("provider."):
        return "after", geometric(profile.clears.attempts, unit(*key, "attempts", at))
    return "shown", 0


def geometric(mean: float, u: float) -> int:
    """Return the number of attempts up to the first that succeeds, each with chance 1 / `mean`, from a draw in [0, 1).

    No loop's limit is thereby the exact number that a fault takes. A larger mean never gives a smaller number for the same draw.
    """
    return 1 if mean <= 1 else 1 + int(math.log1p(-u) / math.log1p(-1 / mean))


# --- wire ---


def first_expressible(codec: Codec, options: Sequence[Move]) -> tuple[Move | None, Reply]:
    """Return the first option that the codec can express, else prose: a model always says something."""
    for move in options:
        try:
            return move, codec.render(move)
        except Inexpressible:
            continue
    prose = next((move.text for move in options if isinstance(move, Text)), "I cannot say this in the format asked for.")
    return None, Reply(prose)


def spares(kind: str, move: Move | None, reply: Reply) -> bool:
    """Return whether a fault of the wire has nothing to spoil in a reply: it is free text, and the text would only say other words.

    Free text has no calls and no frame: all of it is the answer's or the prose's own text. `move`: what the reply says; None for
    prose that no format asked for. That nothing has come, a loop can tell in free text too.
    """
    if kind == "wire.empty" or reply.calls:
        return False
    own = move.value if isinstance(move, Answer) else move.text if isinstance(move, Text) else None
    return move is None or (isinstance(move, Act) and not move.calls) or (isinstance(own, str) and reply.text == own)


def spoiled_reply(kind: str, codec: Codec, move: Move | None, reply: Reply) -> tuple[Reply, bool]:
    """Return a reply as a fault of the wire leaves it, and whether the format still reads the same move.

    A fault spoils how a move is written, never what it says: the first form is taken that the format cannot read, or that still
    says the same; the usual one where it says something else in all forms.
    """
    for form in spoiled_forms(kind, reply):
        try:
            read = codec.parse(form)
        except WireError:
            return form, False
        if move is not None and _without_thought(read) == _without_thought(move):
            return form, form != reply
    return spoiled_forms(kind, reply)[0], False


def _without_thought(move: Move) -> Move:
    """Return a move without its thought: prose round a reply may be taken for one, and changes nothing."""
    return replace(move, thought="") if isinstance(move, Act | Answer) else move


def spoiled_forms(kind: str, reply: Reply) -> list[Reply]:
    """Return the ways in which a kind spoils a reply, the usual one first: one may show in a format in which another does not.

    The raw arguments of its calls are spoiled if it has any, else its text. Text beside calls is an aside: a design must not escape
    by having the model talk. A reply that is cut says so in its `finish_reason`; an empty one has ended of itself.
    """
    if kind == "wire.empty":
        return [replace(reply, text="", calls=(), finish_reason="stop")]
    spoiled = replace(reply, finish_reason="length" if kind == "wire.truncated" else reply.finish_reason)
    if not reply.calls:
        return [replace(spoiled, text=text) for text in _spoiled_texts(kind, reply.text)]
    calls = ([replace(call, arguments=text) for text in _spoiled_texts(kind, call.arguments)] for call in reply.calls)
    return [replace(spoiled, calls=together) for together in zip(*calls, strict=True)]


def _spoiled_texts(kind: str, text: str) -> list[str]:
    cuts = [text[: len(text) // 2], text[: len(text) // 4], text[: len(text) // 8]]
    if kind == "wire.malformed":
        broken = [re.sub(marks, "", text) for marks in (r"[{\[<]", ":")]
        return [*(changed for changed in broken if changed != text), *cuts][:3]
    if kind == "wire.truncated":
        return cuts
    if kind == "wire.fenced":
        return [f"Sure, here is my reply:\n```\n{text}\n```\nLet me know how it goes."]
    return [f"{text}\n{text}"]  # wire.duplicated


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
    call = move.calls[0]
    name, arguments = call.name, dict(call.arguments)
    required = specs[name].parameters.get("required", ()) if name in specs else ()
    last = [*arguments, *(each for each in required if each in arguments)][-1:]
    if kind == "decision.unknown_tool":
        name = f"{name[:61]}_v2"  # providers take names of 64 characters
    elif kind == "decision.extra_argument":
        arguments["verbose"] = True
    elif not last:
        return (move,)
    elif kind == "decision.missing_argument":
        del arguments[last[0]]
    elif kind == "decision.wrong_type":
        arguments[last[0]] = {"about": arguments[last[0]]}
    elif kind == "decision.wrong_value":
        arguments[last[0]] = mislead(arguments[last[0]])
    return (replace(move, calls=(ToolCall(name, arguments), *move.calls[1:])),)


def answer_options(thought: str, value: object, confidence: float) -> tuple[Move, ...]:
    """Return an answer in the ways that formats differ in: a value, text, with a confidence, without a value, prose."""
    text = render_value(value)
    rated = (Answer(thought, value, confidence), Answer(thought, text, confidence))
    return (Answer(thought, value), Answer(thought, text), *rated, Answer(thought), Answer("", value), Answer("", text), Text(text))


# --- values ---

_NEARLY_INFINITE = 1e300


def mislead(value: Any) -> Any:
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
        other = value.translate(str.maketrans("0123456789", "1234567890"))
        return other if other != value else f"{value} (old)"
    if isinstance(value, list | tuple):
        return [mislead(value[0]), *value[1:]] if value else [0]
    if isinstance(value, dict):
        return {**value, (first := next(iter(value))): mislead(value[first])} if value else {"value": 0}
    return 0


def _outdated(value: Any) -> Any:
    """Return a value as it may have been before: a smaller number, earlier digits, a list without its last entry."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NEARLY_INFINITE:
        return value - 1 - abs(value) // 10
    if isinstance(value, str) and (earlier := value.translate(str.maketrans("123456789", "012345678"))) != value:
        return earlier
    if isinstance(value, list | tuple) and value:
        return list(value[:-1])
    if isinstance(value, dict) and value:
        return {**value, (last := list(value)[-1]): _outdated(value[last])}
    return mislead(value)


def distorted(kind: str, value: Any) -> Any:
    """Return what an implicit failure of a tool gives in the place of its result; never equal to the one given."""
    if kind == "tool.stale":
        return _outdated(value)
    if kind == "mcp.cut" and (text := render_value(value)):
        return text[: len(text) // 2]
    if kind in ("tool.empty", "tool.partial") and isinstance(value, str | list | tuple | dict) and value:
        kept = 0 if kind == "tool.empty" else len(value) // 2
        if isinstance(value, dict):
            return dict(list(value.items())[:kept])
        return value[:kept] if isinstance(value, str) else list(value[:kept])
    return None if kind == "tool.empty" and value not in (None, "", [], {}, ()) else mislead(value)


# --- what a server of tools lists ---

LIST_CHANGED, DRIFTED, ERROR = "mcp.list_changed", "mcp.drifted", "mcp.error"
"""Kinds that leave a call without a result. The fourth, `mcp.cut`, is among the implicit ones of `faults`."""


def refused_by_server(kind: str, call: ToolCall) -> Observation:
    """Return what a call gives under a fault of this kind."""
    error_type, text = "McpError", str(McpError(INTERNAL_ERROR, "Internal error"))
    if kind == LIST_CHANGED:
        text = str(McpError(INVALID_PARAMS, f"Unknown tool: {call.name}"))
    elif kind == DRIFTED:
        error_type, text = "InvalidArguments", f"Input validation error: {new_argument(call.arguments)!r} is a required property"
    return Observation(call.name, "error", text, error_type, None, call.call_id)


def listed(specs: tuple[ToolSpec, ...], faults: Mapping[str, Sequence[Fault]]) -> ToolListing:
    """Return the tools as the server lists them now. `faults`: tool → those that have changed it in the list, in order.

    A fault shows until its tool's next call would succeed.
    """
    active = {name: changes[-1].kind for name, changes in faults.items() if changes[-1].active(changes[-1].strikes)}
    there = [spec for spec in specs if active.get(spec.name) != LIST_CHANGED]
    return ToolListing(tuple(drifted(spec) if spec.name in active else spec for spec in there), sum(map(len, faults.values())))


def drifted(spec: ToolSpec) -> ToolSpec:
    """Return a tool whose schema requires one argument more than it did; calls as before are refused."""
    properties = dict(spec.parameters.get("properties", {}))
    name = new_argument(properties)
    required = [*spec.parameters.get("required", ()), name]
    parameters = {**spec.parameters, "properties": {**properties, name: {"type": "string"}}, "required": required}
    return replace(spec, parameters=parameters)


def new_argument(names: object) -> str:
    """Return the name of the argument that a drifted schema requires; `names`: a container of the names that it has."""
    name = "revision"
    while isinstance(names, (dict, list, tuple)) and name in names:
        name += "_"
    return name
