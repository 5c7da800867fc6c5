"""How often workers died during an arm's trials, and when that is enough: each death costs the start of a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

MAX_ARM_DEATHS = 15
"""Deaths of workers during trials of an arm that are borne however few of its trials have ended."""
MAX_ARM_DEATH_SHARE = 0.1
"""Deaths for each ended trial of the arm that are borne: a machine that kills a worker now and then is not the arm's fault."""


class ArmDeaths:
    """The deaths of workers that are an arm's own."""

    def __init__(self) -> None:
        self._deaths = Counter[str]()
        self._ended = Counter[str]()
        self._reasons: dict[str, str] = {}

    def trial_ended(self, arm: str) -> None:
        self._ended[arm] += 1

    def worker_died(self, arms: Collection[str], how: str) -> str:
        """Count a death by the arms of the trials under way, if that is one; return the arm if it is given up now, or nothing."""
        if len(set(arms)) != 1:
            return ""
        (arm,) = set(arms)
        self._deaths[arm] += 1
        if arm in self._reasons or self._deaths[arm] <= max(MAX_ARM_DEATHS, MAX_ARM_DEATH_SHARE * self._ended[arm]):
            return ""
        self._reasons[arm] = f"not run: {self._deaths[arm]} worker processes died during trials of this arm, the last of {how}"
        return arm

    def reason(self, arm: str) -> str:
        """Return why the arm is given up; empty if it is not."""
        return self._reasons.get(arm, "")
