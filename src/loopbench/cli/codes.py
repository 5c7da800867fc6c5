"""Exit codes, one meaning each for every command."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""A check or a gate failed."""
BAD_INPUT = 2
UNDECIDED = 3
INVALID = 4
"""No verdict of the run holds."""
INTERRUPTED = 130
"""It can be resumed."""
