"""What commands print of a run that has ended, and the page that they write of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whichloop.experiments.ablate.ablation import AblationResult, ablation_result
from whichloop.experiments.ablate.answer_json import ablation_answer_json
from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.reports import html as pages
from whichloop.reports.html.files import PAGE, write_page

from . import render, render_effects
from .codes import DONE, INVALID
from .console import make_room, say
from .options import Depth


def code_of_run(run: Results) -> int:
    """Return INVALID if no verdict of a run holds, or an arm of it is to be mended first."""
    return INVALID if run.comparison.invalid or run.arms_to_mend else DONE


def print_results(run: Results, *, as_json: bool, depth: Depth = "answer") -> None:
    """Print a run's results to stdout: its answer, or for an ablation its effects, after as much as `depth` says."""
    ablation = ablation_result(run)
    if as_json:
        print(json.dumps(run.to_json() | (_ablation_json(ablation) if ablation else {}), ensure_ascii=True, allow_nan=False))
        return
    with_tables = depth in ("tables", "all metrics")
    if with_tables and run.traces.kept:
        render.aside(str(run.traces))
    if ablation is None or depth == "all metrics":
        if with_tables:
            render.details(run, all_metrics=depth == "all metrics")
        elif depth == "arms":
            render.arms(run)
        render.print_answer(run, is_whole=with_tables)
    if ablation is not None:
        render_effects.ablation(ablation, verbose=with_tables)


def _ablation_json(result: AblationResult) -> dict[str, Any]:
    """Return an ablation's results with which setting to use, which stands in the place of a comparison's answer."""
    return result.to_json() | {"answer": ablation_answer_json(result)}


def write_report(run: Results, html: Path | None = None, *, announce: bool = True) -> str:
    """Write a run's page, into its directory unless another file was typed, and return its text. `announce`: say where it is."""
    page = pages.report_html(run)
    write(page, html, run.folder / PAGE, announce=announce)
    return page


def write_optimization(result: OptimizationResult, html: Path | None = None, page: str = "") -> None:
    """Write an optimization's page, into its directory unless another file was typed. `page`: its text, if it was made before."""
    write(page or pages.optimization_html(result), html, result.folder / PAGE)


def write(text: str, typed: Path | None, usual: Path, *, announce: bool = True) -> None:
    """Write a page. Failure is a warning for the usual file; for a file that was typed it raises OSError."""
    if typed is not None:
        make_room(typed)
    try:
        path = write_page(text, typed or usual)
        if announce:
            say(f"page: {path}")
    except OSError as error:
        if typed is not None:
            raise
        where = error.filename or usual
        say(f"warning: the page was not written: {where}: {error.strerror}; --html FILE writes it elsewhere")
