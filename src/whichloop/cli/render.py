"""Results on the terminal, and the page that is written of them."""

from __future__ import annotations

from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.runs.store.files import PAGE, write_whole

from .console import say
from .process import DONE, FAILED, INVALID


def code_of_run(run: Results) -> int:
    """Return INVALID if no verdict of a run holds, or an arm of it is to be mended first."""
    return INVALID if run.comparison.invalid or run.arms_to_mend else DONE


def code_of_search(result: OptimizationResult) -> int:
    """Return the code of an optimization's test, unless that is DONE; else FAILED if an optimizer failed.

    The program that is kept after such a failure is hardly the one that was asked for.
    """
    if result.test is not None and (code := code_of_run(result.test)) != DONE:
        return code
    return FAILED if any(design.status == "failed" for design in result.designs) else DONE


def write_report(run: Results, *, announce: bool = True) -> str:
    """Write a run's page into its directory, and return its text. `announce`: say where it is."""
    from whichloop.reports.html import page as pages

    page = pages.report_html(run)
    write(page, None, run.folder / PAGE, announce=announce)
    return page


def write(text: str, typed: Path | None, usual: Path, *, announce: bool = True) -> None:
    """Write a page. Failure is a warning for the usual file; for a file that was typed it raises OSError."""
    if typed is not None:
        typed.parent.mkdir(parents=True, exist_ok=True)
    try:
        path = typed or usual
        write_whole(path, text.encode())
        if announce:
            say(f"page: {path}")
    except OSError as error:
        if typed is not None:
            raise
        where = error.filename or usual
        say(f"warning: the page was not written: {where}: {error.strerror}")
