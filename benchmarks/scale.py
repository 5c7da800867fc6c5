"""A run of `bare` by its size: the trials, then reading and comparing them, then logging them to MLflow in SQLite.

python benchmarks/scale.py TASKS REPEATS
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Taken, taken

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched


def phase(name: str, found: Taken[Any]) -> dict[str, float]:
    return {f"{name}_s": found.wall_s, f"{name}_cpu_s": found.cpu_s, f"{name}_mb": found.grown_mb}


def main(tasks: int, repeats: int, runs: Path) -> None:
    ready = prepare(CompareConfig(loops=("bare",), suite=f"sums:load(size={tasks})", repeats=repeats, mlflow=False, runs=runs))
    ran = taken(lambda: run(ready, Unwatched()))
    early = "mlflow" in sys.modules
    read = taken(lambda: results(ready.folder))
    if early or read.given.comparison.arms[0].summary.scored != tasks * repeats:
        sys.exit("MLflow stood on the trials' path" if early else "trials are missing")

    from whichloop.reports import mlflow as tracking  # what takes long to import is no part of the run
    from whichloop.reports.mlflow.store import open_store

    uri = tracking.default_uri(runs)
    open_store(uri, "sums", runs)  # makes the database: once, not once a run
    logged = taken(lambda: tracking.log_run(read.given, uri, "sums"))
    size_mb = sum(path.stat().st_size for path in ready.folder.iterdir()) / 2**20
    line = {"trials": tasks * repeats, "folder_mb": size_mb}
    print(json.dumps(line | phase("run", ran) | phase("read", read) | phase("log", logged)), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(int(sys.argv[1]), int(sys.argv[2]), Path(folder))
