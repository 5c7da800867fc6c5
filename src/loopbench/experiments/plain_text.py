"""Text that came from a model, a tool or a file, made safe to print."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks that turn the writing direction, line separators, half surrogates, invisible tags."""


def plain(text: str) -> str:
    """Safe for a terminal: control characters other than line feed and tab are shown as their codes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
