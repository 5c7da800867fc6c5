"""One request of a trace and what came of it: the reply, its calls, and the fault that shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from whichloop.metrics.trace import TracedCall
from whichloop.protocol import Message, Reply
from whichloop.protocol.tool_calls import NEVER_RAN
from whichloop.protocol.values import canonical

MAX_HINT_CHARS = 2_000
"""Maximum length of a message about a call; a longer one is a whole prompt."""


# --- damage of a raw reply ---

_FENCE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPENING, _CLOSING = "{[<", "}]>"


def wire_damage(reply: Reply, unreadable: bool) -> str:
    """Return the kind of `wire.` fault that a reply looks like; "" for none.

    It inspects the raw arguments of calls if any, else the text. A fence or a doubled reply counts even if readable.
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
    """Tell whether a whole reply is in a code fence, with nothing but prose outside of it."""
    match = _FENCE.search(text)
    if match is None or not match.group(1).strip():
        return False
    return not _has(text[: match.start()] + text[match.end() :], _OPENING)


def is_doubled(text: str) -> bool:
    """Tell whether a text is the same text twice, one below the other, or one JSON object right after the other."""
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
    """Tell whether a text ends inside an open quote, bracket, XML element, or before the last section of DSPy's format.

    Lines of labelled text have nothing to close, so unreadable ones count as cut.
    """
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", text)
    if '"' in bare or sum(map(bare.count, "{[")) > sum(map(bare.count, "}]")):
        return True
    if "[[ ##" in text:
        return "[[ ## completed" not in text
    if not _has(text, _OPENING):
        return re.search(r"^\w+:", text, re.MULTILINE) is not None
    return any(f"</{name}>" not in text for name in re.findall(r"<(\w+)>", text)) or bool(re.search(r"<[^>]*$", text))


# --- provider errors ---

_PROVIDER = {
    "rate_limit": "provider.rate_limit",
    "server": "provider.server",
    "overloaded": "provider.overloaded",
    "timeout": "provider.timeout",
    "connection": "provider.dropped",
}
SETTLED = ("provider.refused", "provider.auth", "provider.setup", "provider.bad_request", "context_overflow", "provider")
"""Permanent failures: the request fails however often it is sent."""


def provider_fault(kind: str, text: str = "") -> str:
    """Return the fault behind an error event or a client's retry; "" for a permanent failure."""
    fault = _PROVIDER.get(kind.removeprefix("provider."), "")
    if fault == "provider.dropped" and re.search(r"in the middle|incomplete|chunked", text):
        return "provider.cut"
    if fault == "provider.server" and re.search(r"\bno JSON|not valid JSON|JSONDecode|Expecting value", text):
        return "provider.garbled"
    if fault == "provider.server" and "in the middle of the reply" in text:
        return "provider.interrupted"
    return fault


# --- messages about a refused call ---

_HINTS: Mapping[str, re.Pattern[str]] = {
    "decision.unknown_tool": re.compile(r"\btool\b[^:]{0,80}\b(not found|not exist|not available)|\b(unknown|no such) tool", re.I),
    "decision.missing_argument": re.compile(r"missing|is required|required argument", re.I),
    "decision.extra_argument": re.compile(r"unexpected|unknown argument|not accept|extra (input|argument)|not permitted", re.I),
    "decision.wrong_type": re.compile(r"should be|must be|valid|type", re.I),
}


def hint_of(text: str) -> str:
    """Return the kind of mistake that a message about a refused call names; empty if it names none."""
    return next((kind for kind, pattern in _HINTS.items() if pattern.search(text[:MAX_HINT_CHARS])), "")


REPEATED = "repeated"
"""A repetition of a successful call: `decision.repeated_call` or `never_finish`, depending on the rest of the point."""
REFUSED = "refused"
"""A call that could not run; the tool's other calls show the kind of mistake."""
TOOL = "tool"
"""A call that ran and failed."""
DECIDE = "decide"
"""The role in which results may be overlooked and the fault be told apart."""
GIVEN_TEXT = "given text"
"""The kind of an argument that is a text which a tool has returned: garbage that the model believed makes a wrong type, too."""
PLAIN_KIND = {GIVEN_TEXT: "string"}

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
    hint: str = ""
    """The kind of mistake that the text about a refused call names."""
    last_error: str = ""
    """What its last run gave: the error's type and text."""

    @property
    def is_refused(self) -> bool:
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

    @property
    def unreadable(self) -> bool:
        return self.wire_error is not None

    @property
    def stumble(self) -> str:
        """The visible fault of this attempt: a kind of fault, REPEATED, REFUSED or TOOL; "" for none."""
        if self.error:
            return provider_fault(self.error, self.error_text)
        if damage := wire_damage(self.reply, self.unreadable):
            return damage
        if self.repeats:
            return REPEATED
        if any(call.is_refused for call in self.calls):
            return REFUSED
        return TOOL if any(call.failed for call in self.calls) else ""

    @property
    def failed(self) -> bool:
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


def stated_call(call: TracedCall, returned: Sequence[str] = ()) -> StatedCall:
    """Return a call as a move states it. `returned`: what tools had returned by then."""
    shape = []
    named = call.arguments if isinstance(call.arguments, Mapping) else {}
    for name, value in named.items():
        is_given = isinstance(value, str) and value != "" and any(stands_in(value, data) for data in returned)
        shape.append((str(name), GIVEN_TEXT if is_given else _kind(value)))
    return StatedCall(call.tool, (call.tool, canonical(call.arguments)), tuple(sorted(shape)))


def _kind(value: object) -> str:
    """Return a value's JSON type."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    for types, name in ((int | float, "number"), (str, "string"), (Mapping, "object"), (list | tuple, "array")):
        if isinstance(value, types):
            return name
    return type(value).__name__


def stands_in(result: str, text: str) -> bool:
    """Tell whether a prompt shows a result, as it is or as JSON quotes it."""
    return result in text or json.dumps(result, ensure_ascii=False)[1:-1] in text
