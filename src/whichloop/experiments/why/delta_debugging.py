"""The smallest set of items with which a test still fails: delta debugging, and then every smaller set.

`ddmin` is the algorithm of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on
Software Engineering 28(2), 2002. What it finds is 1-minimal: without any one item the test passes. A smaller set of other items may
exist all the same, so that all sets of fewer items are tried behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Generic, TypeVar

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
    tests = _Tests(items, fails, max_runs)
    places = tuple(range(len(items)))
    if tests(()):
        return tests.result(proven=True)
    if not tests(places):
        return SmallestSet(None, tests.runs, is_proven=True)
    try:
        smallest = ddmin(places, tests)
        for size in range(1, len(smallest)):
            if any(tests(chosen) for chosen in combinations(places, size)):
                break
    except _UsedUpError:
        return tests.result(proven=False)
    return tests.result(proven=True)


def ddmin(items: tuple[Item, ...], fails: Fails[Item]) -> tuple[Item, ...]:
    """Return a 1-minimal set with which the test fails; it fails with all items, and passes with none."""
    parts = 2
    while len(items) > 1:
        chunks = _split(items, parts)
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


def _split(items: tuple[Item, ...], parts: int) -> list[tuple[Item, ...]]:
    """Return the items in so many parts of nearly equal size, none empty."""
    ends = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


class _UsedUpError(Exception):
    """No more runs are allowed."""


class _Tests(Generic[Item]):
    """Runs each test once, counts the runs, and remembers the smallest set that fails."""

    def __init__(self, items: Sequence[Item], fails: Fails[Item], max_runs: int) -> None:
        self._items = items
        self._fails = fails
        self._max_runs = max_runs
        self._known: dict[tuple[int, ...], bool] = {}
        self._best: tuple[int, ...] | None = None

    @property
    def runs(self) -> int:
        return len(self._known)

    def __call__(self, places: tuple[int, ...]) -> bool:
        """Say whether what stands at these places fails, each set tried once. Raises _UsedUpError after the last run."""
        if places not in self._known:
            if self.runs >= self._max_runs:
                raise _UsedUpError
            failed = self._known[places] = self._fails(tuple(self._items[place] for place in places))
            if failed and (self._best is None or len(places) < len(self._best)):
                self._best = places
        return self._known[places]

    def result(self, *, proven: bool) -> SmallestSet[Item]:
        assert self._best is not None
        return SmallestSet(tuple(self._items[place] for place in self._best), self.runs, proven)
