"""What an agent did with one fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["told", "untold", "unaware", "handled", "silent", "error", "unlimited", "not applicable"]

OUTCOMES: Mapping[Outcome, str] = {
    "told": "recovered, and the model was told why",
    "untold": "recovered, and the model was not told why",
    "unaware": "recovered without noticing: the call was repaired, or a part of it dropped",
    "handled": "nothing was lost, and the model had nothing to mend",
    "silent": "ended as if all were well, with a wrong or an empty answer",
    "error": "ended, and said so",
    "unlimited": "had no limit: the check stopped it",
    "not applicable": "cannot happen to this agent",
}
"""Outcome → what it means."""

RECOVERED: frozenset[Outcome] = frozenset({"told", "untold", "unaware", "handled"})
"""The outcomes with the right answer."""

MAX_SHOWN_CHARS = 4_000
"""Characters of a request's new text that a finding keeps."""


@dataclass(frozen=True, slots=True)
class FaultFinding:
    """The finding of one fault."""

    fault: str
    outcome: Outcome
    detail: str
    """How it ended, in words: the answer, the exception or the limit."""
    request: int | None = None
    """Number of the request that shows it, from 1; None if none followed the fault."""
    shown: str = ""
    """What is new in that request, beside the model's own reply: what the model was told. At most MAX_SHOWN_CHARS characters."""
    requests: int = 0
    """Requests of the whole run."""
    calls: int = 0
    """Calls of tools that ran, failed ones among them."""

    @property
    def recovered(self) -> bool:
        """Whether the answer was right in spite of the fault."""
        return self.outcome in RECOVERED

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"means": OUTCOMES[self.outcome]}
