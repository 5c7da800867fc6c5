"""What an arm is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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


def are_imported(infos: Iterable[ArmInfo]) -> bool:
    """Whether there are arms, and other tools gave the results of each of them."""
    profiles = {info.profile for info in infos}
    return profiles == {IMPORTED}
