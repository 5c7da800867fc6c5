"""A loop of ours with everything recorded: schedule, metering, trace, journal on disk.

python benchmarks/ours.py LOOP TRIALS LATENCY_MS IN_FLIGHT [CALLS OF TOOLS PER TASK]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import measured

from loopbench.experiments.compare import run
from loopbench.experiments.config import CompareConfig
from loopbench.experiments.engine.runner import Unwatched
from loopbench.experiments.preparing import Experiment, prepare
from loopbench.experiments.results import results


def right(experiment: Experiment) -> tuple[int, int]:
    """Right answers, model calls."""
    run(experiment, Unwatched())
    records = results(experiment.folder).records
    return sum(record.accuracy == 1 for record in records), sum(sum(record.calls.values()) for record in records)


if __name__ == "__main__":
    loop, n, latency_ms, flights = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    length = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "slow.toml"
        profile.write_text(f'name = "slow"\nlatency_s = {latency_ms / 1000}\n')
        ready = prepare(
            CompareConfig(
                loops=(loop,),
                suite=f"sums:load(size={n}, length={length})",
                profiles=(str(profile),),
                concurrency=flights,
                real_time=True,
                mlflow=False,
                runs=Path(folder) / "runs",
            )
        )
        measured(loop, n, latency_ms, flights, lambda: right(ready))
