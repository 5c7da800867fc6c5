"""The smallest set of a lost trial's faults with which it is still lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Generic, TypeVar

from whichloop.metrics.record import Record
from whichloop.models.profiles import Profile
from whichloop.runs.store.files import RunError

from .replay import NO_FAULTS, Replays, landed

Item = TypeVar("Item")
MAX_RUNS = 200
"""How often a test is run at most where nothing else is said."""
Fails = Callable[[tuple[Item, ...]], bool]
"""Says whether the test fails with these items and no others."""


@dataclass(frozen=True, slots=True)
class SmallestSet(Generic[Item]):
    """The smallest set that was found."""

    items: tuple[Item, ...] | None
    """In the order in which they were given; None: the test passes with all of them."""
    runs: int
    """How often the test was run."""
    is_proven: bool
    """No smaller set fails; else the runs were used up before that was known."""


def smallest_set(items: Sequence[Item], fails: Fails[Item], max_runs: int) -> SmallestSet[Item]:
    """Find the smallest set of items with which a test fails, in at most `max_runs` runs of it.

    Each set is tested once. Raises ValueError for `max_runs` below 2: nothing and everything are tested first.
    """
    if max_runs < 2:
        raise ValueError(f"at least 2 runs are needed, not {max_runs}")
    known: dict[tuple[int, ...], bool] = {}
    places = tuple(range(len(items)))

    def tests(chosen: tuple[int, ...]) -> bool:
        if chosen not in known:
            if len(known) >= max_runs:
                raise _UsedUpError
            known[chosen] = fails(tuple(items[place] for place in chosen))
        return known[chosen]

    is_proven = True
    if not tests(()):
        if not tests(places):
            return SmallestSet(None, len(known), is_proven=True)
        try:
            smallest = ddmin(places, tests)
            _ = any(tests(chosen) for size in range(1, len(smallest)) for chosen in combinations(places, size))
        except _UsedUpError:
            is_proven = False
    best = min((chosen for chosen, failed in known.items() if failed), key=len)
    return SmallestSet(tuple(items[place] for place in best), len(known), is_proven)


def ddmin(items: tuple[Item, ...], fails: Fails[Item]) -> tuple[Item, ...]:
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


@dataclass(frozen=True, slots=True)
class MinimalFaults:
    """The smallest set of faults with which a trial is lost."""

    trial: str
    """ARM/TASK/REPEAT"""
    landed: tuple[str, ...]
    """The faults that landed in the trial, KIND@ROLE:CALL."""
    faults: tuple[str, ...]
    """Those of the smallest set."""
    runs: int
    """How often the trial was run again."""
    is_smallest: bool
    """No smaller set of the landed faults loses the trial; else the runs were used up before that was known."""
    profile: Profile
    """The trial's profile with these faults alone: it loses the trial again."""

    @property
    def as_typed(self) -> str:
        """The set as `whichloop show --faults` takes it."""
        return ",".join(self.faults) or NO_FAULTS

    def to_json(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "landed": list(self.landed),
            "faults": list(self.faults),
            "runs": self.runs,
            "smallest": self.is_smallest,
            "profile": self.profile.model_dump(mode="json"),
        }


def minimal_among(replays: Replays, record: Record, max_runs: int = MAX_RUNS) -> MinimalFaults:
    """Find the smallest set of the faults that landed in a lost trial with which it is still lost.

    Trials of one loop share what the event loop of `replays` starts, such as a process.
    Raises SolvedAgainError if the trial is solved when all of them strike again, ValueError for `max_runs` below 2.
    """
    lost, faults = replays.replayable, landed(record)

    def is_lost(chosen: tuple[str, ...]) -> bool:
        return not replays.run(lost.profile_with(chosen)).record.is_solved

    smallest = smallest_set(faults, is_lost, max_runs)
    if smallest.items is None:
        message = f"{record.name}: it is solved when its {len(faults)} landed faults strike again: nothing to single out"
        raise SolvedAgainError(message)
    return MinimalFaults(record.name, faults, smallest.items, smallest.runs, smallest.is_proven, lost.profile_with(smallest.items))
