"""The smallest set of a lost trial's faults with which it is still lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from whichloop.metrics.record import Record
from whichloop.models.profiles import Profile
from whichloop.runs.store.files import RunError

from .replay import Replays, landed

MAX_RUNS = 200
"""How often a test is run at most where nothing else is said."""
Faults = tuple[str, ...]
Fails = Callable[[Faults], bool]
"""Says whether the test fails with these items and no others."""


def smallest_set(items: Faults, fails: Fails, max_runs: int) -> tuple[Faults | None, int, bool]:
    """Find the smallest set of items with which a test fails, in at most `max_runs` runs of it, each with another set.

    Returns the set, None if the test passes with all items; how often it was run; and whether no smaller set fails, or else the
    runs were used up before that was known. Raises ValueError for `max_runs` below 2: nothing and everything are tested first.
    """
    if max_runs < 2:
        raise ValueError(f"at least 2 runs are needed, not {max_runs}")
    known: dict[Faults, bool] = {}

    def tests(chosen: Faults) -> bool:
        if chosen not in known:
            if len(known) >= max_runs:
                raise _UsedUpError
            known[chosen] = fails(chosen)
        return known[chosen]

    is_proven = True
    if not tests(()):
        if not tests(items):
            return None, len(known), True
        try:
            smallest = ddmin(items, tests)
            _ = any(tests(chosen) for size in range(1, len(smallest)) for chosen in combinations(items, size))
        except _UsedUpError:
            is_proven = False
    return min((chosen for chosen, failed in known.items() if failed), key=len), len(known), is_proven


def ddmin(items: Faults, fails: Fails) -> Faults:
    """Return a 1-minimal set with which the test fails; it fails with all items, and passes with none."""
    parts = 2
    while len(items) > 1:
        ends = [len(items) * number // parts for number in range(parts + 1)]
        chunks = [items[start:end] for start, end in pairwise(ends)]
        rests = [tuple(item for item in items if item not in chunk) for chunk in chunks]
        if (smaller := next(filter(fails, chunks), None)) is not None:
            items, parts = smaller, 2
        elif parts > 2 and (smaller := next(filter(fails, rests), None)) is not None:
            items, parts = smaller, parts - 1
        elif parts == len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items


class _UsedUpError(Exception):
    """No more runs are allowed."""


class SolvedAgainError(RunError):
    """A lost trial is solved when all of its faults strike again."""


@dataclass(frozen=True)
class MinimalFaults:
    """The smallest set of faults with which a trial is lost."""

    trial: str
    """ARM/TASK/REPEAT"""
    landed: Faults
    """The faults that landed in the trial, KIND@ROLE:CALL."""
    faults: Faults
    """Those of the smallest set."""
    runs: int
    """How often the trial was run again."""
    smallest: bool
    """No smaller set of the landed faults loses the trial; else the runs were used up before that was known."""
    profile: Profile
    """The trial's profile with these faults alone: it loses the trial again."""

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"profile": self.profile.model_dump(mode="json")}


def minimal_among(replays: Replays, record: Record, max_runs: int = MAX_RUNS) -> MinimalFaults:
    """Find the smallest set of the faults that landed in a lost trial with which it is still lost.

    Raises SolvedAgainError if the trial is solved when all of them strike again, ValueError for `max_runs` below 2.
    """
    faults = landed(record)

    def is_lost(chosen: Faults) -> bool:
        return not replays.run(replays.profile_with(chosen)).record.is_solved

    smallest, runs, is_proven = smallest_set(faults, is_lost, max_runs)
    if smallest is None:
        message = f"{record.name}: it is solved when its {len(faults)} landed faults strike again: nothing to single out"
        raise SolvedAgainError(message)
    return MinimalFaults(record.name, faults, smallest, runs, is_proven, replays.profile_with(smallest))
