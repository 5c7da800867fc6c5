"""The candidates and costs of an optimization: plain data, reported to watchers and stored with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from whichloop.metrics.record import Record
from whichloop.protocol import Program, Prompt
from whichloop.runs.engine.runner import Unwatched


@dataclass(frozen=True, slots=True)
class SearchCost:
    """The trials and model requests of a search."""

    trials: int = 0
    """Rollouts of the loop; 0 for an optimizer's own requests."""
    calls: int = 0
    tokens: int = 0
    dollars: float | None = None
    """US dollars; None if no price is known."""

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
        """Read plain JSON. Raises KeyError for a missing part."""
        return cls(int(data["trials"]), int(data["calls"]), int(data["tokens"]), data["cost_usd"])


NO_COST = SearchCost()


def mean_of(scores: Mapping[str, float]) -> float | None:
    """Return the mean of scores by task; None if there are none."""
    return sum(scores.values()) / len(scores) if scores else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that an optimizer tried, with its scores so far."""

    number: int
    """The position in the order of trying; 0 is the design's own program."""
    digest: str
    program: Program
    train: Mapping[str, float] = field(default_factory=dict)
    """Task → mean score of its rollouts."""
    dev: Mapping[str, float] = field(default_factory=dict)
    counts: bool = True
    """Whether it counts as a program that was tried: the first and the final one, one that was scored on a dev task or on all train
    tasks, or one with instructions of its own. Others are steps within an optimizer, such as a program without the demonstration
    of the task that is just being bootstrapped."""

    @property
    def dev_mean(self) -> float | None:
        """The mean over the dev tasks that it was scored on; None if there are none."""
        return mean_of(self.dev)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "number": self.number,
            "digest": self.digest,
            "train": dict(self.train),
            "dev": dict(self.dev),
            "counts": self.counts,
            "program": {
                name: {"instructions": prompt.instructions, "demos": [dict(demo) for demo in prompt.demos]}
                for name, prompt in self.program.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], like: Program) -> Self:
        """Read plain JSON; `like`: a program whose predictors have the same fields, where these are known.

        Raises KeyError, TypeError, ValueError or AttributeError for anything else.
        """
        program = {
            name: replace(like.get(name, _FIELDS_UNKNOWN), instructions=state["instructions"], demos=tuple(state["demos"]))
            for name, state in data["program"].items()
        }
        counts = data.get("counts", True)  # older runs do not tell
        return cls(data["number"], data["digest"], program, data["train"], data["dev"], counts)


_FIELDS_UNKNOWN = Prompt("", {}, {})

Status = Literal["finished", "budget", "failed"]


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The end of one design's optimization."""

    design: str
    """The loop as typed, canonical."""
    status: Status
    """finished: the optimizer returned a program. budget, failed: it stopped early, and the best program so far was kept."""
    reason: str
    """The reason why it did not finish; empty if it did."""
    digest: str
    """The digest of the final program."""
    chosen: int
    """The number of the final candidate."""
    candidates: int
    """Number of programs that count as tried, including the design's own."""
    before: Mapping[str, float]
    """Dev task → score of the design's own program."""
    after: Mapping[str, float]
    """Dev task → score of the final program."""
    search: SearchCost
    """The optimizer's rollouts, which the budget limits."""
    proposals: SearchCost
    """The optimizer's own requests."""
    evaluation: SearchCost
    """The extra rollouts beyond the budget for `before` and `after`."""
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
        """Read plain JSON. Raises KeyError, TypeError or ValueError for anything else."""
        fields: dict[str, Any] = {name: data[name] for name in _PLAIN}
        fields |= {name: SearchCost.from_json(data[name]) for name in ("search", "proposals", "evaluation")}
        return cls(**fields, warnings=tuple(data["warnings"]))


_PLAIN = ("design", "status", "reason", "digest", "chosen", "candidates", "before", "after")


class Watcher(Protocol):
    """An observer of an optimization, called once at a time; a resumed run reports its replayed rollouts again."""

    def began(self, design: str, initial: Candidate) -> None:
        """Handle the start of a design's optimization; `initial`: its own program."""

    def tried(self, design: str, candidate: Candidate) -> None:
        """Handle a program from when it counts as tried; rollouts of it may have been told before."""

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        """Handle a scored rollout; `candidate` includes its score, `search` is the cost so far."""

    def proposed(self, design: str, proposals: SearchCost) -> None:
        """Handle the optimizer's own request; `proposals` is the cost so far."""

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        """Handle the end of a design's optimization; `final`: the candidate whose program is in optimized.json."""


class Silent(Unwatched):
    """A watcher that does nothing."""

    def began(self, design: str, initial: Candidate) -> None: ...
    def tried(self, design: str, candidate: Candidate) -> None: ...
    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None: ...
    def proposed(self, design: str, proposals: SearchCost) -> None: ...
    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None: ...


SILENT = Silent()
