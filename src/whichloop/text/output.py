"""Text made safe for whoever reads it: a terminal, a line, a JSON file."""

from __future__ import annotations

import json
import re
from typing import Any

from whichloop.protocol import render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks that turn the writing direction, line separators, half surrogates, invisible tags."""


def terminal_safe(text: str) -> str:
    """Return text that is safe for a terminal: control characters except line feed and tab become their codes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def safe_for_others(text: str) -> str:
    """Return text of the user's own code, such as an exception's, as others may see it: without keys, and safe for a terminal."""
    return terminal_safe(redact(text))


def plain_line(text: str) -> str:
    """Return text made safe as a single line, with every run of white space as one space."""
    return one_line(terminal_safe(text))


def json_safe(value: Any) -> Any:
    """Return a value that JSON can hold; whatever JSON cannot hold becomes text."""
    if isinstance(value, str):
        return render_value(value)
    try:
        return json.loads(canonical_json(value))
    except Exception:  # NaN, a cycle, an object, or whatever a class of the loop's own raises
        return render_value(value)
