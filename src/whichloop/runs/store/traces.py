"""Which traces a run keeps, and why a trial has none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.protocol.digest import unit

from .files import RunError, read_manifest_json

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


_NOT_KEPT = {
    "failures": "the run kept traces of failures only (-s traces=failures)",
    "sample": "it is none of those drawn to be kept (-s traces={})",
    "none": "the run kept none (-s traces=none)",
}


def policy_of(folder: Path) -> str:
    """Return `traces` of a run, as it was typed; `all` if unknown."""
    try:
        return str(read_manifest_json(folder)["config"].get("traces", "all"))
    except RunError:
        return "all"


def _is_imported(folder: Path) -> bool:
    try:
        return read_manifest_json(folder).get("imported") is not None
    except RunError:
        return False


def _how_it_ended(record: Record) -> str:
    """Return how a trial ended, as far as its record says: `it is scored 0 (ToolError: db down; stop: crashed)`."""
    score = f" {record.accuracy:g}" if record.status == "scored" else ""
    details = "; ".join(filter(None, [record.reason, f"stop: {record.stop}" if record.stop else ""]))
    return f"it is {record.status}{score}{f' ({details})' if details else ''}"


def why_untraced(folder: Path, record: Record) -> str:
    """Return why a trial has no trace, in words."""
    if _is_imported(folder):
        return f"the imported files hold none; {_how_it_ended(record)}"
    policy = policy_of(folder)
    if record.status == "excluded" or policy == "all":
        return record.reason or "none was recorded"
    return _NOT_KEPT.get(policy.partition("=")[0], "none was recorded").format(policy)
