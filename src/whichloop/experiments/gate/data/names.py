"""Names of arms in lines for people."""

from __future__ import annotations

import re

from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.text.output import plain_line

MAX_ARM = 60
"""Characters of an arm's name in a sentence or a row."""


def short_arm(name: str) -> str:
    """Return an arm's name, the middle of a long one left out: commands, `--json` and one note have it whole."""
    return shortened(name, MAX_ARM)


_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""Prefixes of `##[…]` and `##vso[…]`, which GitHub and Azure treat as commands anywhere in a line."""


def literal(content: str) -> str:
    """Return one line without control characters or anything that a CI server treats as a command."""
    return _no_command(plain_line(content))


def _no_command(line: str) -> str:
    line = _COMMAND_INSIDE.sub("## ", line)
    return f"\\{line}" if line.lstrip().startswith("::") else line
