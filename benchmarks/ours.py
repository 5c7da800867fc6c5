"""A loop of ours with everything recorded: schedule, metering, traces, journal on disk.

python benchmarks/ours.py LOOP TRIALS LATENCY_MS IN_FLIGHT

TRIALS must be a multiple of REPEATS.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import measured, typed

from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

REPEATS = 4
"""Of each task, as a run has them that is to show anything: its plan is replayed once, for what the scripted model goes by."""


class Counting(Unwatched):
    """Right answers and model calls."""

    def __init__(self) -> None:
        self.right = 0
        self.calls = 0

    def finished(self, record: Record) -> None:
        self.right += record.accuracy == 1
        self.calls += record.lm_calls


def counted(experiment: Experiment) -> tuple[int, int]:
    counts = Counting()
    run(experiment, counts)
    return counts.right, counts.calls


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "slow.toml"
        profile.write_text(f'name = "slow"\nlatency_s = {latency_ms / 1000}\n')
        ready = prepare(
            CompareConfig(
                loops=(sys.argv[1],),
                suite=f"sums:load(size={n // REPEATS})",
                repeats=REPEATS,
                profiles=(str(profile),),
                concurrency=flights,
                real_time=True,
                mlflow=False,
                runs=Path(folder) / "runs",
            )
        )
        measured(n, latency_ms, flights, lambda: counted(ready))
