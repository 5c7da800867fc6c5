"""Evidence from texts in a trace: the damage of a raw reply, the kind of a provider error, the reason for a refused call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from whichloop.protocol import Reply

Hint = Literal["unknown", "missing", "extra", "type", ""]
"""The mistake that the text about a refused call names."""

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

_HINTS: tuple[tuple[Hint, re.Pattern[str]], ...] = (
    ("unknown", re.compile(r"\btool\b[^:]{0,80}\b(not found|not exist|not available)|\b(unknown|no such) tool", re.I)),
    ("missing", re.compile(r"missing|is required|required argument", re.I)),
    ("extra", re.compile(r"unexpected|unknown argument|not accept|extra (input|argument)|not permitted", re.I)),
    ("type", re.compile(r"should be|must be|valid|type", re.I)),
)


KIND_OF_HINT: Mapping[Hint, str] = {
    "unknown": "decision.unknown_tool",
    "missing": "decision.missing_argument",
    "extra": "decision.extra_argument",
    "type": "decision.wrong_type",
    "": "",
}


def hint_of(text: str) -> Hint:
    """Return the mistake that a message about a refused call names."""
    return next((hint for hint, pattern in _HINTS if pattern.search(text[:MAX_HINT_CHARS])), "")
