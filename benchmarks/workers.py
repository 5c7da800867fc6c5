"""A loop that keeps its processor busy, in one worker process or more; or as much hashing in plain processes.

python benchmarks/workers.py burning|plain PROCESSES TRIALS
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

CALLS = 4
PLAIN = """
import hashlib, sys, time
block, started = bytes(2**20), time.time()
for _ in range(int(sys.argv[1])):
    made = hashlib.sha256()
    for _ in range(32):
        made.update(block)
print(started, time.time())
"""


class Span(Unwatched):
    """From the first trial's start to the last one's end; what starting the workers takes is apart."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0
        self.right = 0

    def finished(self, record: Record) -> None:
        self.began = min(self.began or record.started_at, record.started_at)
        self.ended = max(self.ended, record.started_at + record.wall_s)
        self.right += record.accuracy == 1


def burning(processes: int, trials: int, runs: Path) -> dict[str, float]:
    loop, suite = "burning:Burning", f"sums:load(size={trials})"
    span = Span()
    started = time.time()
    run(prepare(CompareConfig(loops=(loop,), suite=suite, workers=processes, mlflow=False, runs=runs)), span)
    if span.right != trials:
        sys.exit(f"{span.right} of {trials} right")
    return {"wall_s": span.ended - span.began, "start_s": span.began - started}


def plain(processes: int, trials: int) -> dict[str, float]:
    command = [sys.executable, "-c", PLAIN, str(CALLS * trials // processes)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    spans = [tuple(map(float, process.communicate()[0].split())) for process in running]
    return {"wall_s": max(end for _, end in spans) - min(start for start, _ in spans), "start_s": 0.0}


if __name__ == "__main__":
    what, count, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        found = plain(count, n) if what == "plain" else burning(count, n, Path(folder))
    print(json.dumps(found | {"trials_per_s": n / found["wall_s"]}), flush=True)
