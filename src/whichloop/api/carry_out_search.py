"""A search that a program starts; it needs DSPy, which a run does not."""

from __future__ import annotations

from pathlib import Path

from whichloop.experiments.optimize.config import OptimizeConfig
from whichloop.experiments.optimize.prepare import prepare, reopen
from whichloop.experiments.optimize.result import OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run
from whichloop.protocol.names import parse_spec
from whichloop.reports.html.page import optimization_html
from whichloop.reports.progress import SearchBoard, displayed
from whichloop.reports.tracking import log_results
from whichloop.runs.permissions import Permissions, own_code

from .carry_out import apart, warn_caller, way_on, write_or_note


def carry_out_search(request: OptimizeConfig | tuple[Path, Permissions], progress: bool | None) -> OptimizationResult:
    """Search and test, or go on with a search that was cut off, log it to MLflow, and return the result.

    `request`: of a search that was cut off its folder, and what the user allows again.
    Raises ValueError for bad input, and KeyboardInterrupt, which says how the search goes on.
    """
    notes: list[str] = []

    def finish() -> OptimizationResult:
        optimization = reopen(*request) if isinstance(request, tuple) else prepare(request)
        config = optimization.config
        to_go_on = way_on(optimization.folder, [parse_spec(config.search.optimizer).name, *own_code(config.compare)])
        try:
            with displayed(SearchBoard(optimization), progress) as board:
                stopped = run(optimization, board, board)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {to_go_on}") from None
        result = optimization_result(optimization.folder)
        page = optimization_html(result)
        if stopped:
            notes.append(f"{stopped}; {result.state or 'complete'}; {to_go_on}")
        notes.extend(f"{each.design}: {warning}" for each in result.designs if each.ended for warning in each.ended.warnings)
        notes.extend(write_or_note(page, result.folder))
        if not stopped:
            notes.extend(filter(None, [log_results(result, config.compare, page)]))
        return result

    result = apart(finish)
    warn_caller(notes)
    return result
