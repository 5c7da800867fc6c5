"""Runs whose trials are shared among forks, in a process of its own that has one thread: `python -m tests.runs.engine.forked_runs`.

It prints what came of them as JSON. Each run is of 6 tasks, in the folder that it is started with.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.processes import is_alive
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import forks_of, run_apart
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine import forked
from whichloop.runs.engine.forked import ForkedWorker

from ..conftest import Told


def shared(folder: Path, each: Callable[[int, list[ForkedWorker]], object] = lambda count, forks: None) -> dict[str, Any]:
    """Run to the end, after an interruption too; return what came of it. `each`: called after each trial with their number."""
    config = CompareConfig(
        loops=("bare", "finish"), suite="arithmetic(size=6)", profiles=("flaky-tools",), repeats=2, runs=folder, mlflow=False
    )
    experiment, told = prepare(config), Told()
    with forks_of(experiment) as forks:
        told.each = lambda count: each(count, forks)
        try:
            run_apart(experiment, told, forks)
        except KeyboardInterrupt:
            before = len(told.records)
            with forks_of(goes_on := reopen(experiment.folder)) as others:
                run_apart(goes_on, replace(told, each=lambda count: None), others)
            told.notes.append(f"went on after {before} of {experiment.trials}")
    found = results(experiment.folder)
    keys = {record.key for record in told.records}
    return {
        "forks": len(forks),
        "left": [fork.pid for fork in forks if is_alive(fork.pid)],
        "notes": told.notes,
        "digest": found.digest,
        "settings": found.manifest.settings.workers,
        "heard": len(told.records) == len(keys) == experiment.trials == len(found.records),
    }


def kill_the_first(count: int, forks: list[ForkedWorker]) -> None:
    if count == 5:
        os.kill(forks[0].pid, signal.SIGKILL)


def press(count: int, forks: list[ForkedWorker]) -> None:
    if count == 5:
        signal.raise_signal(signal.SIGINT)


def main() -> None:
    folder = Path(sys.argv[1])
    forked.MIN_TRIALS = 2
    os.sched_getaffinity = lambda pid: {0, 1}
    made = {
        "whole": shared(folder / "whole"),
        "killed": shared(folder / "killed", kill_the_first),
        "interrupted": shared(folder / "interrupted", press),
    }
    print(json.dumps(made))


if __name__ == "__main__":
    main()
