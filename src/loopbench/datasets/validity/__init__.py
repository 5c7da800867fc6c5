"""Whether a suite can be trusted: the oracle that replays plans, and what shows by looking at tasks and tools alone."""

from .replay import Replayed, agrees, carry_out, check_suite, planned_answer, replay

__all__ = ["Replayed", "agrees", "carry_out", "check_suite", "planned_answer", "replay"]
