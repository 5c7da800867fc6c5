"""An optimization from its search to the end of its test, logged to MLflow while it goes on if its settings ask for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loopbench.experiments.optimize.candidates import Watcher
from loopbench.experiments.optimize.prepare import Optimization
from loopbench.experiments.optimize.result import optimization_result
from loopbench.experiments.optimize.run import run
from loopbench.experiments.optimize.watchers import Watchers
from loopbench.runs.engine.runner import Progress


class SearchView(Watcher, Progress, Protocol):
    """What shows a search and its test."""


def run_logged(made: Optimization, view: SearchView, warn: Callable[[str], None]) -> tuple[str, str]:
    """Search and test; return why it stopped early and the command that opens the MLflow pages, either empty if there is none.

    `warn`: takes one line, from any thread, if MLflow's store fails; the run directory is complete without it.
    Raises what `run` raises, KeyboardInterrupt and RunError among it; what happened until then is logged.
    """
    compare = made.config.compare
    if not compare.mlflow:
        return run(made, view, view), ""
    from .mlflow.optimization import OptimizationTracker  # MLflow takes seconds to import

    with OptimizationTracker(made.folder, made.manifest, compare.tracking_uri, compare.experiment, warn) as tracker:
        stopped = run(made, Watchers(view, tracker), view)
        tracked = tracker.finish(optimization_result(made.folder).to_json())
    return stopped, "" if tracked is None else tracked.ui
