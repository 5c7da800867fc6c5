"""Text of models, tools and files as it may be printed: one line, and nothing in it that a CI server takes for a command."""

from __future__ import annotations

import re

from whichloop.text.output import plain_line

_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""Prefixes of `##[…]` and `##vso[…]`, which GitHub and Azure treat as commands anywhere in a line."""


def literal(content: str) -> str:
    """Return one line without control characters or anything that a CI server treats as a command."""
    return _no_command(plain_line(content))


def _no_command(line: str) -> str:
    line = _COMMAND_INSIDE.sub("## ", line)
    return f"\\{line}" if line.lstrip().startswith("::") else line
