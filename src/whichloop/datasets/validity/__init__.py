"""Whether a suite can be trusted: the oracle that replays plans, and what shows by looking at tasks and tools alone."""

from .replay import Replayed, carry_out, planned_answer, replay

__all__ = ["Replayed", "carry_out", "planned_answer", "replay"]
