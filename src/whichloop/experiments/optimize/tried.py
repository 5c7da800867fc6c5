"""The programs that a search tried, read from its files: what each scored, on how many tasks, and what its rollouts took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.runs.store.files import RunError, read_document

from .candidates import NO_COST, Candidate, SearchCost, SearchEnd
from .files import read_log
from .manifest import OptimizationManifest


@dataclass(frozen=True, slots=True)
class SearchTasks:
    """Number of tasks that an optimizer learns from, and that it chooses programs by."""

    train: int
    dev: int


def tasks_of(manifest: OptimizationManifest) -> SearchTasks:
    """Return the number of tasks that the optimizer of a run has."""
    train, dev = (manifest.splits[name].tasks for name in ("train", "dev"))
    return SearchTasks(train, dev)


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

    @property
    def number(self) -> int:
        """Its number; 0 is the design's own program."""
        return self.candidate.number

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. Of each split: the sum of scores, and the tasks that they are of, of how many in all."""
        candidate = self.candidate
        return {
            "program": candidate.number,
            "digest": candidate.digest,
            "kept": self.is_kept,
            "dev_solved": solved(candidate.dev),
            "dev_scored": len(candidate.dev),
            "dev_tasks": self.tasks.dev,
            "train_solved": solved(candidate.train),
            "train_scored": len(candidate.train),
            "train_tasks": self.tasks.train,
            "rollouts": self.spent.trials,
            "calls": self.spent.calls,
            "tokens": self.spent.tokens,
            "cost_usd": self.spent.dollars,
        }


def solved(scores: Mapping[str, float]) -> float:
    """Return how many tasks were solved; one of partial credit counts as its part."""
    return round(sum(scores.values()), 6)


@dataclass(frozen=True, slots=True)
class RolledOut:
    """What a design's log of rollouts tells of its programs."""

    spent: Mapping[str, SearchCost]
    """Digest of a program → the cost of its rollouts."""
    last: str
    """The digest of the program whose rollout was the last that the budget paid for; empty if there is none."""


def rolled_out(log: Path) -> RolledOut:
    """Read a log of rollouts. Raises RunError for one that cannot be read."""
    spent: dict[str, SearchCost] = {}
    last = ""
    for number, line in enumerate(read_log(log), 1):
        try:
            program = str(line["key"][0])
            spent[program] = spent.get(program, SearchCost()) + SearchCost.from_json(line["spent"])
            last = last if line["beyond"] else program
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{log}:{number}: not a rollout: {type(error).__name__}: {error}") from None
    return RolledOut(spent, last)


def tried_programs(path: Path, rollouts: RolledOut, end: SearchEnd, tasks: SearchTasks) -> tuple[TriedProgram, ...]:
    """Read the programs that count as tried, and the one that was kept, from the file of all of them; none without a file.

    Raises RunError for one that cannot be read.
    """
    try:
        candidates = [Candidate.from_json(item, {}) for item in read_document(path)["candidates"]]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None
    return tuple(
        TriedProgram(each, rollouts.spent.get(each.digest, SearchCost()), each.number == end.chosen, tasks)
        for each in candidates
        if each.counts or each.number == end.chosen
    )


def other_rollouts(rollouts: RolledOut, tried: Sequence[TriedProgram]) -> SearchCost:
    """Return the cost of the rollouts of all programs that do not count as tried, such as one that the budget cut off at its first
    task; none where the programs are not known."""
    digests = {program.candidate.digest for program in tried}
    others = [cost for digest, cost in rollouts.spent.items() if digest not in digests] if tried else []
    return sum(others, NO_COST)


def kept_program(tried: Sequence[TriedProgram]) -> TriedProgram | None:
    """Return the program that was kept; None if none is known."""
    return next((program for program in tried if program.is_kept), None)
