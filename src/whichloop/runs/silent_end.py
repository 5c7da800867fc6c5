"""The reason of a trial that let nothing else run, so that its worker was ended."""

from __future__ import annotations

KILLED = "the loop let nothing else run for"
"""What the reason of a trial begins with whose process was killed."""


def killed(seconds: float, at: str) -> str:
    """Return why a trial's process was killed. `at`: file and line of the user's code where it was; empty if that is not known."""
    where = f"; it was at {at}" if at else "; it was in code that gave no sign, such as a long call in C"
    return f"{KILLED} {seconds:.0f} s; its process was killed, and its trace lost{where}"


def is_blocked(reason: str) -> bool:
    """Say whether this is the reason of such a trial."""
    return reason.startswith(KILLED)
