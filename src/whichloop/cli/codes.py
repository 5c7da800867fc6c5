"""Exit codes; each has the same meaning in every command."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""A check or a gate failed."""
BAD_INPUT = 2
UNDECIDED = 3
INVALID = 4
"""The run supports no verdict."""
INTERRUPTED = 130
"""The run can be resumed."""
