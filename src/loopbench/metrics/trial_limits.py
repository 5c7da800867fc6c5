"""The limits that a run set to what each of its trials may spend: they are part of the question that its verdicts answer."""

from __future__ import annotations

from dataclasses import dataclass

from loopbench.protocol import StopReason


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Limits that differ from the usual ones; of a run that set none, empty."""

    words: str = ""
    """`at most 4,000 tokens and 5 tool steps a trial`."""
    stops: frozenset[StopReason] = frozenset()
    """How trials end that reach one of them."""

    def title(self, title: str) -> str:
        """Return the title of what was found under these limits: with them behind it, if there are any."""
        return f"{title}; {self.words}" if self.words else title


NO_LIMITS = TrialLimits()
