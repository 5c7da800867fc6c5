"""Text made safe for whoever reads it: a terminal, a line, a JSON file."""

from __future__ import annotations

import re

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
