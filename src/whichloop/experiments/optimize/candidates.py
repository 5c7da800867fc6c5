"""The candidates and costs of an optimization: plain data, reported to watchers and stored with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from pydantic import TypeAdapter

from whichloop.metrics.record import Record
from whichloop.protocol import Program, Prompt
from whichloop.runs.engine.runner import Unwatched

_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type) -> TypeAdapter[Any]:
    """Return what reads and writes a dataclass, made when it is first needed."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


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
        known = [part for part in (self.dollars, other.dollars) if part is not None]
        dollars = sum(known) if known else None
        return SearchCost(self.trials + other.trials, self.calls + other.calls, self.tokens + other.tokens, dollars)

    def to_json(self) -> dict[str, Any]:
        return {"trials": self.trials, "calls": self.calls, "tokens": self.tokens, "cost_usd": self.dollars}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchCost:
        """Read plain JSON. Raises KeyError or ValueError for anything else."""
        cost: SearchCost = adapter(cls).validate_python({**data, "dollars": data["cost_usd"]})
        return cost


NO_COST = SearchCost()


def mean_of(scores: Mapping[str, float]) -> float | None:
    """Return the mean of scores by task; None if there are none."""
    return sum(scores.values()) / len(scores) if scores else None


def program_json(program: Program) -> dict[str, Any]:
    """Return the prompts of a program as plain JSON."""
    return {name: {"instructions": each.instructions, "demos": [*map(dict, each.demos)]} for name, each in program.items()}


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
    """Whether it counts as tried: the first, the final one, one scored on a dev task or all train tasks, or one with instructions
    of its own. Others are steps within an optimizer."""

    @property
    def dev_mean(self) -> float | None:
        """The mean over the dev tasks that it was scored on; None if there are none."""
        return mean_of(self.dev)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        plain = {"number": self.number, "digest": self.digest, "counts": self.counts}
        return {**plain, "train": dict(self.train), "dev": dict(self.dev), "program": program_json(self.program)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], like: Program) -> Self:
        """Read plain JSON; `like`: a program whose predictors have the same fields, where these are known.

        Raises KeyError, TypeError, ValueError or AttributeError for anything else.
        """
        program = {
            name: replace(like.get(name, _FIELDS_UNKNOWN), instructions=state["instructions"], demos=tuple(state["demos"]))
            for name, state in data["program"].items()
        }
        return cls(data["number"], data["digest"], program, data["train"], data["dev"], data.get("counts", True))


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
        """Return plain JSON."""
        plain: dict[str, Any] = adapter(type(self)).dump_python(self, mode="json")
        return plain | {name: getattr(self, name).to_json() for name in COSTS}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchEnd:
        """Read plain JSON. Raises KeyError, TypeError or ValueError for anything else."""
        costs = {name: SearchCost.from_json(data[name]) for name in COSTS}
        end: SearchEnd = adapter(cls).validate_python({**data, **costs})
        return end


COSTS = ("search", "proposals", "evaluation")


class Watcher(Protocol):
    """An observer of an optimization, called once at a time; a resumed run reports its replayed rollouts again.

    A program is told as `tried` from when it counts as that; rollouts of it may have been told before. Costs are those so far.
    """

    def tried(self, design: str, candidate: Candidate) -> None: ...
    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None: ...
    def proposed(self, design: str, proposals: SearchCost) -> None: ...
    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None: ...


class Silent(Unwatched):
    """A watcher that does nothing."""

    def tried(self, design: str, candidate: Candidate) -> None: ...
    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None: ...
    def proposed(self, design: str, proposals: SearchCost) -> None: ...
    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None: ...


SILENT = Silent()
