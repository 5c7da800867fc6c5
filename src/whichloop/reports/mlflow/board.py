"""What MLflow should show of an optimization so far. It is kept in memory, so that it can be written at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd, mean_of
from whichloop.experiments.optimize.manifest import CANDIDATES, DesignEntry, OptimizationManifest
from whichloop.experiments.optimize.tried import SearchTasks, tasks_of
from whichloop.metrics.record import Record
from whichloop.runs.store.files import read_document

MAX_CHILDREN = 200
"""Candidates of a design that get a run of their own as they are tried; later ones get it only when they become best."""


@dataclass(slots=True)
class CandidateRow:
    """A candidate."""

    candidate: Candidate
    shown: bool
    """Whether it gets a run of its own."""
    tasks: SearchTasks
    """How many there are in all."""
    rollouts: int = 0
    calls: int = 0
    tokens: int = 0
    changed: bool = True
    """Whether it changed since it was last written."""

    @property
    def metrics(self) -> dict[str, float | None]:
        """Its metrics: `dev` and `train` are over all tasks of their split, so that candidates can be sorted by them."""
        dev, train = self.candidate.dev, self.candidate.train
        return {
            "dev": mean_of(dev) if len(dev) >= self.tasks.dev else None,
            "dev_so_far": mean_of(dev),
            "dev_tasks": len(dev),
            "train": mean_of(train) if len(train) >= self.tasks.train else None,
            "train_so_far": mean_of(train),
            "train_tasks": len(train),
            # a candidate that only its file tells of was rolled out in an earlier session
            "rollouts": self.rollouts or None,
            "calls": self.calls or None,
            "tokens": self.tokens or None,
        }


@dataclass(slots=True)
class DesignRow:
    """A design and all of its candidates."""

    design: str
    about: DesignEntry
    """The design's part of the manifest."""
    tasks: SearchTasks
    """How many the optimizer has."""
    rows: dict[int, CandidateRow] = field(default_factory=dict)
    """Number of a candidate → its row."""
    best: int | None = None
    """Number of the best candidate that was scored on all dev tasks; at the end, of the one that was kept."""
    bests: dict[int, float] = field(default_factory=dict)
    """Calls spent → the best dev mean from then on."""
    search: SearchCost = field(default_factory=SearchCost)
    proposals: SearchCost = field(default_factory=SearchCost)
    ended: SearchEnd | None = None
    changed: bool = True
    settled: bool = False
    """Whether its end is written."""
    _whole: dict[int, float] = field(default_factory=dict)
    """Number of a candidate → its mean over all dev tasks."""

    def put(self, candidate: Candidate) -> CandidateRow:
        """Return the candidate's row, brought up to date."""
        row = self.rows.get(candidate.number)
        if row is None:
            row = self.rows[candidate.number] = CandidateRow(candidate, shown=False, tasks=self.tasks)
            row.shown = candidate.counts and self.tried <= MAX_CHILDREN
        elif candidate.counts and not row.candidate.counts:
            row.shown = row.shown or self.tried < MAX_CHILDREN
        row.candidate = candidate
        row.changed = self.changed = True
        return row

    def judge(self, candidate: Candidate) -> None:
        """Make a candidate the best one if its mean is the highest; of equal candidates the first stays the best."""
        if self.ended is not None or candidate.dev_mean is None or len(candidate.dev) < self.tasks.dev:
            return
        self._whole[candidate.number] = candidate.dev_mean
        best = max(self._whole, key=lambda number: (self._whole[number], -number))
        if best != self.best or self.bests[max(self.bests)] != self._whole[best]:
            self.bests[self.search.calls] = self._whole[best]
        self.mark(best)

    def mark(self, best: int) -> None:
        """Mark a candidate as the best one."""
        for row in (self.rows[best], self.rows[best if self.best is None else self.best]):
            row.changed = True
        self.rows[best].shown = True
        self.best = best

    @property
    def tried(self) -> int:
        """The number of candidates that count as tried."""
        return sum(row.candidate.counts for row in self.rows.values())

    @property
    def shown_in_words(self) -> str:
        """Return in words how many candidates have a run of their own, and which."""
        runs = sum(row.shown for row in self.rows.values())
        which = "" if runs == self.tried else f": the first {MAX_CHILDREN}, and those that became best"
        return f"{runs} of {self.tried} have a run of their own{which}"

    @property
    def points(self) -> list[tuple[int, dict[str, float | None]]]:
        """Return the metrics by the number of calls spent."""
        search, proposals = self.search, self.proposals
        spent: dict[str, float | None] = {
            "rollouts": search.trials,
            "calls": search.calls,
            "tokens": search.tokens,
            "cost_usd": search.dollars,
            "proposals.calls": proposals.calls,
            "proposals.tokens": proposals.tokens,
            "proposals.cost_usd": proposals.dollars,
            "candidates": self.tried,
        }
        points: list[tuple[int, dict[str, float | None]]] = [
            (calls, {"best_dev": best}) for calls, best in sorted(self.bests.items())
        ]
        return [*points, (search.calls, spent)]


class SearchBoard:
    """All designs of an optimization. It is a Watcher that one thread only may call."""

    def __init__(self, folder: Path, manifest: OptimizationManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        tasks = tasks_of(manifest)
        self.designs = {about.design: DesignRow(about.design, about, tasks) for about in manifest.designs}
        self.result: Mapping[str, Any] | None = None
        self.page = ""
        """The page of the result."""
        self.closed = False

    def began(self, design: str, initial: Candidate) -> None:
        self.designs[design].put(initial)

    def tried(self, design: str, candidate: Candidate) -> None:
        self.designs[design].put(candidate)

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        design_row = self.designs[design]
        row = design_row.put(candidate)
        row.rollouts += 1
        row.calls += record.lm_calls
        row.tokens += record.tokens
        design_row.search = search
        design_row.judge(candidate)

    def proposed(self, design: str, proposals: SearchCost) -> None:
        self.designs[design].proposals = proposals
        self.designs[design].changed = True

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        design_row = self.designs[design]
        if not design_row.rows:
            for candidate in [
                Candidate.from_json(item, final.program)
                for item in read_document(self.folder / design_row.about.folder / CANDIDATES)["candidates"]
            ]:
                design_row.put(candidate)
        design_row.put(final)
        design_row.search, design_row.proposals, design_row.ended = end.search, end.proposals, end
        design_row.mark(final.number)
        design_row.changed = True
