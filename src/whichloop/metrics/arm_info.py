"""What an arm is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import StopReason

IMPORTED = "imported"
"""Profile of an imported arm, because no faults were injected."""


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """What an arm is made of; `arm` is its name in the records."""

    arm: str
    loop: str
    options: Mapping[str, Any]
    model: str
    profile: str
    suite: str
    calls_in: str = ""
    """How the loop has calls written: `native`, in the API's own form, or `text`; empty where that is mixed, or not known."""
    met: str = ""
    """The profile that the arm met, where `profile` has one for each form of calls; else empty."""

    @property
    def subject(self) -> str:
        """What it is called: an agent where another tool's results were imported, which may differ in anything; else a loop."""
        return "agent" if self.profile == IMPORTED else "loop"

    @property
    def variant(self) -> str:
        """The loop with its options as one name, the same under each profile and with each model: `finish(parse_retries=0)`."""
        return self.without_profile.removesuffix(f"/{self.model}") or self.arm

    @property
    def without_profile(self) -> str:
        """The arm's name without its profile, the same under each."""
        return self.arm.removesuffix(f"/{self.profile}") or self.arm


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Limits that differ from the usual ones; of a run that set none, empty."""

    words: str = ""
    """`at most 4,000 tokens and 5 tool steps a trial`."""
    stops: frozenset[StopReason] = frozenset()
    """How trials end that reach one of them."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """Arm → its trials that ended at its limit of steps."""


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
