"""The trials of the blessed run, which has more to tell than the baseline where its folder still stands beside the run's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from whichloop.experiments.compare.results import results
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import records_digest
from whichloop.metrics.trace import Trace
from whichloop.runs.store.traces import Traces

from ..data.baseline import Baseline
from ..data.sides import show_command
from ..data.troubles import by_arm_of

_Key = tuple[str, str, int]
"""The arm's name in the baseline, task and repeat of a trial."""


class BlessedTrials:
    """Reads trials of the blessed run. A run of the same name with other records is another one."""

    def __init__(self, run_folder: Path, baseline: Baseline) -> None:
        """`run_folder`: the directory of the run that is judged, beside which the blessed one is looked for."""
        self._folder = run_folder.parent / baseline.run
        self._baseline = baseline

    @cached_property
    def _records(self) -> Mapping[_Key, Record]:
        """The records of the arms that are the blessed ones; none where the run is not there, or cannot be read."""
        if not self._baseline.run or not self._folder.is_dir():
            return {}
        try:
            by_arm = by_arm_of(results(self._folder))
        except (ValueError, OSError):  # an example is told without it
            return {}
        return {
            record.key: record
            for arm, blessed in self._baseline.arms.items()
            if arm in by_arm and records_digest(by_arm[arm]) == blessed.digest
            for record in by_arm[arm]
        }

    def record(self, arm: str, task: str, repeat: int) -> Record | None:
        """Return the record of a blessed trial; None where the run is not there."""
        return self._records.get((arm, task, repeat))

    def trace(self, arm: str, task: str, repeat: int) -> Trace | None:
        """Return the trace of a blessed trial; None where there is none that can be read."""
        record = self.record(arm, task, repeat)
        try:
            return None if record is None or record.trace_at is None else Traces(self._folder).read(record)
        except (ValueError, OSError):
            return None

    def command(self, arm: str, task: str, repeat: int) -> str:
        """Return the command that shows a blessed trial; empty where there is nothing to show."""
        record = self.record(arm, task, repeat)
        return "" if record is None else show_command(self._folder, arm, record)
