"""What an optimization has tried and spent: plain data, told to whoever watches and kept beside the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from loopbench.metrics.record import Record
from loopbench.protocol import Program


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What was asked of models."""

    trials: int = 0
    """Rollouts of the loop; 0 for an optimizer's own requests."""
    calls: int = 0
    tokens: int = 0
    dollars: float | None = None
    """US dollars; None where no price is known."""

    def __add__(self, other: SearchCost) -> SearchCost:
        dollars = [part for part in (self.dollars, other.dollars) if part is not None]
        return SearchCost(
            self.trials + other.trials,
            self.calls + other.calls,
            self.tokens + other.tokens,
            sum(dollars) if dollars else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {"trials": self.trials, "calls": self.calls, "tokens": self.tokens, "cost_usd": self.dollars}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchCost:
        """Raises KeyError for a part that is missing."""
        return cls(int(data["trials"]), int(data["calls"]), int(data["tokens"]), data["cost_usd"])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that an optimizer has tried, as far as it was scored."""

    number: int
    """In the order in which they were tried; 0 is the design's own program."""
    digest: str
    program: Program
    train: Mapping[str, float] = field(default_factory=dict)
    """Task → mean score of its rollouts."""
    dev: Mapping[str, float] = field(default_factory=dict)

    @property
    def dev_mean(self) -> float | None:
        """Over the dev tasks that it was scored on; None where there are none."""
        return sum(self.dev.values()) / len(self.dev) if self.dev else None


Status = Literal["finished", "budget", "failed"]


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How the optimization of one design ended."""

    design: str
    """The loop as typed, canonical."""
    status: Status
    """finished: the optimizer gave its program. budget: it was stopped, and the best program so far was kept. failed: likewise."""
    reason: str
    """Why it did not finish; empty where it did."""
    digest: str
    """Of the program that was kept."""
    chosen: int
    """Its candidate's number."""
    candidates: int
    """How many programs were tried, the design's own included."""
    before: Mapping[str, float]
    """Dev task → score of the design's own program."""
    after: Mapping[str, float]
    """Dev task → score of the program that was kept."""
    search: SearchCost
    """Rollouts that the optimizer asked for: what the budget bounds."""
    proposals: SearchCost
    """The optimizer's own requests."""
    evaluation: SearchCost
    """Rollouts beyond the budget that were missing for `before` and `after`."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "design": self.design,
            "status": self.status,
            "reason": self.reason,
            "digest": self.digest,
            "chosen": self.chosen,
            "candidates": self.candidates,
            "before": dict(self.before),
            "after": dict(self.after),
            "search": self.search.to_json(),
            "proposals": self.proposals.to_json(),
            "evaluation": self.evaluation.to_json(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchEnd:
        """Raises KeyError, TypeError or ValueError for what is none."""
        made: dict[str, Any] = {name: data[name] for name in _PLAIN}
        made |= {name: SearchCost.from_json(data[name]) for name in ("search", "proposals", "evaluation")}
        return cls(**made, warnings=tuple(data["warnings"]))


_PLAIN = ("design", "status", "reason", "digest", "chosen", "candidates", "before", "after")


class Watcher(Protocol):
    """Told of an optimization as it goes on, one call at a time; replayed rollouts of a resumed run are told of again."""

    def began(self, design: str, own: Candidate) -> None:
        """A design's optimization begins; `own`: its own program."""

    def tried(self, design: str, candidate: Candidate) -> None:
        """A program is seen for the first time."""

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        """One rollout of a candidate is scored; `candidate` with this score, `search` as spent so far."""

    def proposed(self, design: str, proposals: SearchCost) -> None:
        """The optimizer has asked something itself; `proposals` as spent so far."""

    def ended(self, design: str, ended: SearchEnd, kept: Candidate) -> None:
        """A design's optimization is over; `kept`: the candidate whose program stands in optimized.json."""
