"""Runs that several programs make: of the five designs, or of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")


def folder_of_run(loops: Sequence[str], suite: str, profiles: Sequence[str], runs: str | Path, **settings: Any) -> Path:
    """Run loops on a suite under profiles, and return the run's folder, below `runs`."""
    chosen = {"loops": tuple(loops), "suite": suite, "profiles": tuple(profiles), "runs": Path(runs), "mlflow": False}
    experiment = prepare(CompareConfig(**chosen, **settings))
    run(experiment, Unwatched())
    return experiment.folder


def compared(loops: Sequence[str], suite: str, profiles: Sequence[str], runs: str | Path, **settings: Any) -> Results:
    """The results of such a run."""
    return results(folder_of_run(loops, suite, profiles, runs, **settings))
