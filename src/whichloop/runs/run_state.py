"""The state of a run, read from its records: how each trial ended, in a few bytes each, and what the run has spent so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from whichloop.metrics.record import MAX_COUNT, Record
from whichloop.metrics.statistics import Floats

from .config import BudgetConfig
from .store.trials import count_rows, each_record

MAX_ATTEMPTS = 3
"""Attempts at a trial that infrastructure made fail, over all sessions, unless the user asks for more."""

Key = tuple[str, str, int]
"""Arm, task, repeat."""
WITHIN_BOUNDS = Field(ge=0, le=MAX_COUNT)
Retry = Literal["infrastructure", "errors"]
"""Trials to run again on request: `infrastructure` means every errored trial, `errors` also those in `FAVOURED`."""

FAVOURED = frozenset({"crashed", "timeout"})
"""Stops that whichloop sets when a loop broke, which scores 0. Running such trials again favours loops that break now and then."""


@dataclass(frozen=True, slots=True)
class TrialState:
    """How the last attempt at a trial ended."""

    status: str
    stop: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent."""

    calls: Annotated[int, WITHIN_BOUNDS] = 0
    tokens: Annotated[int, WITHIN_BOUNDS] = 0
    dollars: Annotated[float, WITHIN_BOUNDS] = 0.0
    seconds: Annotated[float, WITHIN_BOUNDS] = 0.0
    """Wall time in which a trial was under way."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def beyond(self, earlier: Spent) -> Spent:
        """Return what is beyond the known, never less than nothing."""
        return Spent(*(max(0, mine - known) for mine, known in zip(astuple(self), astuple(earlier), strict=True)))

    def to_json(self) -> dict[str, float]:
        """Return the amounts by the names of a budget's limits."""
        return {"calls": self.calls, "tokens": self.tokens, "dollars": self.dollars, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class RunState:
    """A run's trials that have ended, and what all their attempts cost."""

    ended: Mapping[Key, TrialState] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    rows: int = 0

    def next_attempt(self, key: Key, retry: Retry | None) -> int | None:
        """Return which attempt, from 0, a trial is to have now; None if what it gave stands."""
        previous = self.ended.get(key)
        if previous is None:
            return 0
        if previous.status == "errored":
            again = retry is not None or previous.attempt + 1 < MAX_ATTEMPTS
        else:
            again = retry == "errors" and self.is_favoured(key)
        return previous.attempt + 1 if again else None

    def is_favoured(self, key: Key) -> bool:
        """Say whether a trial is scored, and could only gain by being run again."""
        attempt = self.ended.get(key)
        return attempt is not None and attempt.status == "scored" and attempt.stop in FAVOURED


def read_state(folder: Path, earlier: RunState | None = None) -> RunState:
    """Read the state of a run; return `earlier` if nothing was written since. Raises RunError."""
    rows = count_rows(folder)
    if earlier is not None and earlier.rows == rows:
        return earlier
    ended = dict[Key, TrialState]()
    costs, begins, ends = [(0, 0, 0.0)], list[float](), list[float]()
    for record in each_record(folder):
        before = ended.get(record.key)
        if before is None or before.attempt != record.attempt:  # else a row that only judges the same attempt again
            costs.append(cost_of(record))
            begins.append(record.started_at)
            ends.append(record.started_at + record.wall_s)
        ended[record.key] = TrialState(record.status, record.stop, record.attempt)
    calls, tokens, dollars = map(sum, zip(*costs, strict=True))
    return RunState(ended, Spent(calls, tokens, dollars, covered_s(np.array(begins), np.array(ends))), rows)


def cost_of(record: Record) -> tuple[int, int, float]:
    """Return the calls, the tokens and the dollars of a trial, those of a model that plays the user included."""
    dollars = (record.cost_usd or 0.0) + (record.user_cost_usd or 0.0)
    return record.lm_calls + record.user_counts.get("calls", 0), record.tokens + (record.user_tokens or 0), dollars


def covered_s(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of all trials' times."""
    order = np.lexsort((ends, starts))
    starts, ends = starts[order], ends[order]
    until = np.maximum.accumulate(np.concatenate(([0.0], ends)))[:-1]
    return math.fsum(np.maximum(0.0, ends - np.maximum(starts, until)).tolist())


def larger(budget: BudgetConfig, spent: Spent, share: float) -> dict[str, float]:
    """Return for each limit that is used up, by name, one that leaves room for the rest, in whole units or cents.

    `share`: of the run's trials that have ended. The rest is taken to cost as much for each, and a tenth more; where nothing has
    ended, as much again.
    """
    factor = 1.1 / share if share else 2.0
    limits = budget.model_dump(exclude_none=True)
    most = {name: max(limit, getattr(spent, name)) for name, limit in limits.items() if getattr(spent, name) >= limit}
    return {
        name: math.ceil(100 * factor * used) / 100 if name == "dollars" else math.ceil(factor * used) for name, used in most.items()
    }
