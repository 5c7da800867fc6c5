"""The trials of a run that differ from their counterparts, read from their traces once for all that is told of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.divergence import read_trial
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import signatures
from whichloop.runs.store.traces import Traces

from ..data.baseline import TaskLine

HELD_BYTES = 16 * 1024 * 1024
"""Bytes of the traces' text, as JSON, of the trials that are held: of a run with more differing trials some are read again."""

_Place = tuple[str, str, int, int]
"""Arm, task and repeat of a trial, and the repeat of the baseline that it is held against."""


class TracedTrials:
    """Reads trials of a run against their blessed courses, and holds the last ones."""

    def __init__(self, folder: Path, limits: Mapping[str, int]) -> None:
        """`folder`: the run's directory. `limits`: arm → the step limit set for its loop."""
        self.folder = folder
        self._limits = limits
        self._traces = Traces(folder)
        self._held: OrderedDict[_Place, TracedTrial] = OrderedDict()
        self._held_bytes = 0

    def read(self, record: Record, line: TaskLine, counterpart: int) -> TracedTrial:
        """Return a trial of a task, held against this repeat of the blessed task. Raises ValueError where its trace is missing or
        damaged."""
        place = (*record.key, counterpart)
        if place not in self._held:
            blessed = () if line.course is None else signatures(line.course[counterpart])
            self._hold(place, read_trial(self._traces.read(record), record, blessed, self._limits.get(record.arm)))
        return self._held[place]

    def _hold(self, place: _Place, trial: TracedTrial) -> None:
        self._held[place] = trial
        self._held_bytes += _text_bytes(trial.record)
        while self._held_bytes > HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= _text_bytes(oldest.record)


def _text_bytes(record: Record) -> int:
    """Return the length of a trial's trace in its frame."""
    return 0 if record.trace_at is None else record.trace_at[3]
