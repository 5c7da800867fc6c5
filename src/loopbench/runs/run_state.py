"""The state of a run, read from its records: how each trial ended, in a few bytes each, and what the run has spent so far."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from loopbench.metrics.record import Record
from loopbench.metrics.record_fields import MAX_COUNT
from loopbench.runs.store.files import TRIALS
from loopbench.runs.store.records import each_record

from .config import BudgetConfig

MAX_ATTEMPTS = 3
"""Attempts at a trial that infrastructure made fail, over all sessions, unless the user asks for more."""

Key = tuple[str, str, int]
"""Arm, task, repeat."""
WITHIN_BOUNDS = Field(ge=0, le=MAX_COUNT)
Retry = Literal["infrastructure", "errors"]
"""Trials to run again on request: `infrastructure` means every errored trial, `errors` also those in `FAVOURED`."""

FAVOURED = frozenset({"crashed", "timeout"})
"""Stops that loopbench sets when a loop broke, which scores 0. Running such trials again favours loops that break now and then."""


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
        return Spent(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.dollars + other.dollars,
            self.seconds + other.seconds,
        )

    def beyond(self, known: Spent) -> Spent:
        """Return what is beyond the known, never less than nothing."""
        return Spent(
            max(0, self.calls - known.calls),
            max(0, self.tokens - known.tokens),
            max(0.0, self.dollars - known.dollars),
            max(0.0, self.seconds - known.seconds),
        )

    def to_json(self) -> dict[str, float]:
        """Return the amounts by the names of a budget's limits."""
        return {"calls": self.calls, "tokens": self.tokens, "dollars": self.dollars, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class RunState:
    """A run's trials that have ended, and what all their attempts cost."""

    ended: Mapping[Key, TrialState] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    size: int = 0
    """Size of the file of records in bytes when it was read."""

    def next_attempt(self, key: Key, retry: Retry | None) -> int | None:
        """Return which attempt, from 0, a trial is to have now; None if what it gave stands."""
        ended = self.ended.get(key)
        if ended is None:
            return 0
        if ended.status == "errored":
            again = retry is not None or ended.attempt + 1 < MAX_ATTEMPTS
        else:
            again = retry == "errors" and self.is_favoured(key)
        return ended.attempt + 1 if again else None

    def is_favoured(self, key: Key) -> bool:
        """Say whether a trial is scored, and could only gain by being run again."""
        ended = self.ended.get(key)
        return ended is not None and ended.status == "scored" and ended.stop in FAVOURED


def read_state(folder: Path, known: RunState | None = None) -> RunState:
    """Read the state of a run; return `known` if nothing was written since. A torn last line is skipped.

    Raises RunError for any other line that is not a record.
    """
    path = folder / TRIALS
    size = path.stat().st_size if path.exists() else 0
    if known is not None and known.size == size:
        return known
    ended: dict[Key, TrialState] = {}
    alike: dict[TrialState, TrialState] = {}
    tally = SpentTally()
    for record in each_record(folder):
        key = (sys.intern(record.arm), sys.intern(record.task), record.repeat)
        now = TrialState(record.status, record.stop, record.attempt)
        if key not in ended or ended[key].attempt != record.attempt:  # else a line that only judges the same attempt again
            tally.add(record)
        ended[key] = alike.setdefault(now, now)
    return RunState(ended, tally.spent, size)


class SpentTally:
    """Adds up what the trials of records cost."""

    def __init__(self) -> None:
        self.calls = 0
        self.tokens = 0
        self.dollars = 0.0
        self._starts = array("d")
        self._ends = array("d")

    def add(self, record: Record) -> None:
        self.calls += record.lm_calls + record.user_counts.get("calls", 0)
        self.tokens += record.tokens + (record.user_tokens or 0)
        self.dollars += (record.cost_usd or 0.0) + (record.user_cost_usd or 0.0)
        self._starts.append(record.started_at)
        self._ends.append(record.started_at + record.wall_s)

    @property
    def spent(self) -> Spent:
        return Spent(self.calls, self.tokens, self.dollars, self._covered_s())

    def _covered_s(self) -> float:
        """Return the length of the union of all trials' times."""
        covered, until = 0.0, 0.0
        for start, end in sorted(zip(self._starts, self._ends, strict=True)):
            covered += max(0.0, end - max(start, until))
            until = max(until, end)
        return covered


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
