"""What a record says of a trial that let nothing else run: a loop that computes without end, or waits without `await`."""

from __future__ import annotations

INTERRUPTED = "it let nothing else run for"
"""What the reason of a trial begins with that the watchdog interrupted."""
KILLED = "the loop let nothing else run for"
"""The same where it could not be interrupted, so that its process was killed."""


def interrupted(seconds: float, at: str) -> str:
    """Return why a trial was interrupted. `at`: file and line of the user's code where it was; empty where that is not known."""
    return f"{INTERRUPTED} {seconds:.1f} s, and was interrupted{f' at {at}' if at else ''}"


def killed(seconds: float, at: str) -> str:
    """Return why a trial's process was killed. `at`: as in `interrupted`; no trace has it, since a trace ends with its trial."""
    where = f"; it was at {at}" if at else "; it was in code that gave no sign, such as a long call in C"
    return f"{KILLED} {seconds:.0f} s and could not be interrupted; its process was killed, and its trace lost{where}"


def is_blocked(reason: str) -> bool:
    """Say whether this is the reason of such a trial."""
    return reason.startswith((INTERRUPTED, KILLED))
