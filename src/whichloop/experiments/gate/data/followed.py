"""A changed file of a loop whose lines the trials of a gate's run were followed through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """Which changed lines of functions trials came to, and which none did; both sorted."""

    name: str
    """As the baseline calls it."""
    path: str
    """Where it is on this machine."""
    unrun: tuple[int, ...]
    ran: tuple[int, ...]

    @property
    def spans(self) -> Iterator[tuple[int, ...]]:
        """Yield lines that no trial came to, those together that follow one another."""
        for _, each in groupby(enumerate(self.unrun), lambda numbered: numbered[1] - numbered[0]):
            yield tuple(line for _, line in each)
