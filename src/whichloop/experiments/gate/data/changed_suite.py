"""Which tasks of a suite have changed since a baseline was blessed, and which are the same, by their digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whichloop.protocol.values import counted
from whichloop.text.numbers import listed_names


@dataclass(frozen=True, slots=True)
class TaskSets:
    """The tasks of a run and of a baseline, by what became of them; each tuple is sorted."""

    same: tuple[str, ...]
    """Those that are the same in both: question, world, expected answer, scorer, plan and labels."""
    added: tuple[str, ...]
    """Those of the run that the baseline lacks."""
    removed: tuple[str, ...]
    """Those of the baseline that the run lacks."""
    changed: tuple[str, ...]
    """Those of the same id that are something else."""

    @classmethod
    def of(cls, was: Mapping[str, str], now: Mapping[str, str]) -> TaskSets:
        """Compare tasks, each with its digest."""
        both = sorted(was.keys() & now.keys())
        return cls(
            same=tuple(task for task in both if was[task] == now[task]),
            added=tuple(sorted(now.keys() - was.keys())),
            removed=tuple(sorted(was.keys() - now.keys())),
            changed=tuple(task for task in both if was[task] != now[task]),
        )

    @property
    def others(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what became of tasks that are not the same, and their ids."""
        for word, tasks in (("changed", self.changed), ("added", self.added), ("removed", self.removed)):
            if tasks:
                yield word, tasks

    def named(self) -> str:
        """Return `2 tasks changed (a and b), 1 task added (c)`; empty where all are the same."""
        return ", ".join(f"{counted(len(tasks), 'task')} {word} ({listed_names(tasks)})" for word, tasks in self.others)

    def left_out(self) -> str:
        """Return `on the 117 tasks that are the same in both (2 changed, 1 added)`, for an outcome that rests on these alone."""
        others = ", ".join(f"{len(tasks):,} {word}" for word, tasks in self.others)
        same = counted(len(self.same), "task that is", "tasks that are")
        return f"on the {same} the same in both{f' ({others})' if others else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"same": len(self.same), "changed": list(self.changed), "added": list(self.added), "removed": list(self.removed)}
