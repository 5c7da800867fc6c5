"""A search that a program starts; it needs DSPy, which a run does not."""

from __future__ import annotations

from whichloop.experiments.optimize.config import OptimizeConfig
from whichloop.experiments.optimize.prepare import Optimization, prepare, reopen
from whichloop.experiments.optimize.result import EVERYTHING_RAN, OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run
from whichloop.protocol.names import parse_spec
from whichloop.reports.html.page import optimization_html
from whichloop.reports.progress import SearchBoard, displayed
from whichloop.reports.tracking import log_results
from whichloop.runs.folders import named_alike
from whichloop.runs.permissions import own_code

from .carry_out import CutSearch, apart, warn_caller, way_on, write_or_note


def carry_out_search(request: OptimizeConfig | CutSearch, progress: bool | None) -> OptimizationResult:
    """Search and test, or go on with a search that was cut off, log it to MLflow, and return the result.

    Raises ValueError for bad input, RunStopped where the search cannot go on, and KeyboardInterrupt.
    """
    notes: list[str] = []

    def finish() -> OptimizationResult:
        optimization = reopen(request.folder, request.allowed) if isinstance(request, CutSearch) else prepare(request)
        with displayed(SearchBoard(optimization), progress) as board:
            stopped = run(optimization, board, board)
        result = optimization_result(optimization.folder)
        page = optimization_html(result)
        notes.extend(_how_it_stopped(stopped, optimization, result))
        notes.extend(f"{design.design}: {warning}" for design in result.designs for warning in design.warnings)
        notes.extend(filter(None, [named_alike(result.folder, optimization.config.compare.name)]))
        notes.extend(write_or_note(page, result.folder))
        if not stopped:
            notes.extend(filter(None, [log_results(result, optimization.config.compare, page)]))
        return result

    result = apart(finish)
    warn_caller(notes)
    return result


def _how_it_stopped(reason: str, optimization: Optimization, result: OptimizationResult) -> list[str]:
    """Return how a search or its test that stopped early goes on; nothing for one that did not."""
    if not reason:
        return []
    names = [parse_spec(optimization.config.search.optimizer).name, *own_code(optimization.config.compare)]
    return [f"{reason}; {result.state or EVERYTHING_RAN}; {way_on(optimization.folder, names)}"]
