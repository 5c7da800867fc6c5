"""Names of arms in lines for people."""

from __future__ import annotations

from whichloop.metrics.trajectory.trajectory import shortened

MAX_ARM = 60
"""Characters of an arm's name in a sentence or a row."""


def short_arm(name: str) -> str:
    """Return an arm's name, the middle of a long one left out: commands, `--json` and one note have it whole."""
    return shortened(name, MAX_ARM)
