"""The limits that a run set to what each of its trials may spend: they are part of the question that its verdicts answer.

One rule holds for a limit that a run keeps and for one that is held against its records later: a trial that spends more is not
solved, whatever it answers. So a run under a limit gives what the records of a run without it foretell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from whichloop.protocol import StopReason


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Limits that differ from the usual ones; of a run that set none, empty."""

    words: str = ""
    """`at most 4,000 tokens and 5 tool steps a trial`."""
    stops: frozenset[StopReason] = frozenset()
    """How trials end that reach one of them."""
    suite_steps: int | None = None
    """The tool steps that the suite grants a trial, where the run set no limit of its own to them; None where that is not known."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """Arm → its trials that ended at that limit of the suite's."""

    def title(self, title: str) -> str:
        """Return the title of what was found under these limits: with them behind it, if there are any."""
        return f"{title}; {self.words}" if self.words else title


NO_LIMITS = TrialLimits()
TRIAL_LIMITS = "trial_limits"
"""Name of the version of the rule among those of a manifest. A run with limits that has none was made by the rule before."""
TRIAL_LIMITS_VERSION = 2
"""1: a limit in tokens, dollars or seconds refused the next call, and what the last one answered counted, however much it took."""
SAME_SUM = 1e-12
"""Share by which sums of the same dollars may differ, as the order of their parts has it."""


def exceeds(spent: float, limit: float) -> bool:
    """Whether a trial spent more than a limit, both in the same unit."""
    return spent > limit and not math.isclose(spent, limit, rel_tol=SAME_SUM)
