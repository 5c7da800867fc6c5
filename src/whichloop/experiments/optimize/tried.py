"""The programs that a search tried, read from its files: what each scored, on how many tasks, and what its rollouts took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.runs.store.files import RunError, read_document

from .candidates import NO_COST, Candidate, SearchCost, SearchEnd
from .manifest import OptimizationManifest, read_log


@dataclass(frozen=True, slots=True)
class SearchTasks:
    """Number of tasks that an optimizer learns from, and that it chooses programs by."""

    train: int
    dev: int


def tasks_of(manifest: OptimizationManifest) -> SearchTasks:
    """Return the number of tasks that the optimizer of a run has."""
    return SearchTasks(manifest.splits["train"].tasks, manifest.splits["dev"].tasks)


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """A program that counts as tried."""

    candidate: Candidate
    spent: SearchCost
    """Its rollouts, those for its dev scores beyond the budget among them."""
    is_kept: bool
    """Whether the design ended with it."""
    tasks: SearchTasks
    """How many there are in all."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. Of each split: the sum of scores, and the tasks that they are of, of how many in all."""
        candidate, spent = self.candidate, self.spent
        return {
            "program": candidate.number,
            "digest": candidate.digest,
            "kept": self.is_kept,
            **_scores("dev", candidate.dev, self.tasks.dev),
            **_scores("train", candidate.train, self.tasks.train),
            "rollouts": spent.trials,
            **{name: spent.to_json()[name] for name in ("calls", "tokens", "cost_usd")},
        }


def _scores(split: str, scores: Mapping[str, float], tasks: int) -> dict[str, float]:
    return {f"{split}_solved": solved(scores), f"{split}_scored": len(scores), f"{split}_tasks": tasks}


def solved(scores: Mapping[str, float]) -> float:
    """Return how many tasks were solved; one of partial credit counts as its part."""
    return round(sum(scores.values()), 6)


def tried_programs(candidates: Path, rollouts: Path, end: SearchEnd, tasks: SearchTasks) -> tuple[TriedProgram, ...]:
    """Read the programs that count as tried, and the one that was kept; none without a file of them. Raises RunError."""
    try:
        found = [Candidate.from_json(item, {}) for item in read_document(candidates)["candidates"]]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{candidates}: {type(error).__name__}: {error}") from None
    spent: dict[str, SearchCost] = {}
    for number, line in enumerate(read_log(rollouts), 1):
        try:
            program = str(line["key"][0])
            spent[program] = spent.get(program, NO_COST) + SearchCost.from_json(line["spent"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{rollouts}:{number}: not a rollout: {type(error).__name__}: {error}") from None
    return tuple(
        TriedProgram(each, spent.get(each.digest, NO_COST), each.number == end.chosen, tasks)
        for each in found
        if each.counts or each.number == end.chosen
    )
