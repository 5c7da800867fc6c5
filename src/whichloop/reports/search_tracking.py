"""What is logged to MLflow of a search while it goes on, because the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from whichloop.experiments.optimize.candidates import Watcher, Watchers
from whichloop.experiments.optimize.prepare import Optimization
from whichloop.experiments.optimize.result import optimization_result
from whichloop.experiments.optimize.run import run
from whichloop.reports.html.page import optimization_html
from whichloop.runs.engine.runner import Progress

from .tracking import logs


class SearchView(Watcher, Progress, Protocol):
    """What shows a search and its test."""


@dataclass(frozen=True, slots=True)
class LoggedSearch:
    """How a search and its test went. Any text is empty if there is none."""

    stopped: str
    """Why it stopped early."""
    ui: str = ""
    """The command that opens the MLflow pages."""
    page: str = ""
    """The page that was logged to MLflow."""


def run_logged(optimization: Optimization, view: SearchView, warn: Callable[[str], None]) -> LoggedSearch:
    """Search and test.

    `warn`: takes one line, from any thread, if MLflow's store fails; the run directory is complete without it.
    Raises what `run` raises, KeyboardInterrupt and RunError among it; what happened until then is logged.
    """
    compare = optimization.config.compare
    if not logs(compare):
        return LoggedSearch(run(optimization, view, view))
    from .mlflow import OptimizationTracker  # takes seconds

    with OptimizationTracker(optimization.folder, optimization.manifest, compare.tracking_uri, compare.experiment, warn) as tracker:
        stopped = run(optimization, Watchers(view, tracker), view)
        result = optimization_result(optimization.folder)
        page = optimization_html(result)
        tracked = tracker.finish(result.to_json(), page)
    return LoggedSearch(stopped, "" if tracked is None else tracked.ui, page)
