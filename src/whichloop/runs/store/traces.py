"""Which traces a run keeps, and why a trial has none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.protocol.digest import unit

from .files import read_manifest_json

MAX_TEXT = 16 * 1024 * 1024
"""Bytes of a trace: a longer one is not kept, and one that would expand to more is not opened. Read as JSON it may take 24 times as
much memory."""


@dataclass(frozen=True, slots=True)
class TracePolicy:
    """Which trials' traces a run keeps: `all`, `failures`, `none`, or `sample`, those of some cells of the schedule."""

    which: str = "all"
    cells: frozenset[tuple[str, int]] = frozenset()
    """Task and repeat of each cell in the sample."""

    @classmethod
    def of(cls, which: str, cells: Iterable[tuple[str, int]], seed: int) -> TracePolicy:
        """Return the policy that `which` names. A hash of seed, task and repeat draws a sample, equal for all arms."""
        kind, _, size = which.partition("=")
        if kind != "sample":
            return cls(kind)
        return cls(kind, frozenset(nsmallest(int(size), cells, key=lambda cell: (unit("traces", seed, *cell), cell))))

    def keeps(self, record: Record) -> bool:
        """Say whether a finished trial's trace is to be written."""
        if self.which == "failures":
            return record.status != "scored" or not record.is_solved
        return self.which == "all" or (record.task, record.repeat) in self.cells


def policy_of(folder: Path) -> str:
    """Return `traces` of a run, as it was typed. Raises RunError."""
    return str(read_manifest_json(folder)["config"].get("traces", "all"))


def why_untraced(folder: Path, record: Record) -> str:
    """Return why a trial has no trace: what the run kept, how the trial ended, and why. Raises RunError."""
    kept = "an import" if read_manifest_json(folder).get("imported") is not None else f"traces={policy_of(folder)}"
    score = f" {record.accuracy:g}" if record.status == "scored" else ""
    return "; ".join(filter(None, [kept, f"{record.status}{score}", record.stop, record.reason]))
