"""Processes that tests have started, as the system sees them."""

from __future__ import annotations

from pathlib import Path


def is_alive(process: int) -> bool:
    """Return whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has ended, maybe while it was looked at
        return False
