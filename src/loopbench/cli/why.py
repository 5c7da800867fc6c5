"""`loopbench why`: why one arm loses to another, task by task; no model is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .folders import run_folder

if TYPE_CHECKING:
    from loopbench.experiments.compare.results import Results
    from loopbench.metrics.record import Record

MIN = 3
"""Examples of each cause that are printed."""


def why(
    run: Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)],
    a: Annotated[
        str | None, typer.Argument(help="Arm, or a loop in all its arms; or a trial ARM/TASK/REPEAT.", show_default=False)
    ] = None,
    b: Annotated[str | None, typer.Argument(help="Arm, or loop, that A is held against.", show_default=False)] = None,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Every trial and task, not only the first of each kind.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say where arms part, and why the one that did not solve a task lost it; then what is notable about the tasks."""
    from loopbench.experiments.compare.results import find_record, results
    from loopbench.experiments.why.arms import arms_named
    from loopbench.experiments.why.why import why as find
    from loopbench.runs.folders import trials_folder

    from . import render_why

    found = results(trials_folder(run_folder(run, runs)))
    if a is not None and b is None and not arms_named(found, a):
        _trial(found, find_record(found, a), as_json=as_json)
        return
    most = None if show_all or as_json else MIN
    reasons = find(
        found, pairs=_pairs(found, a, b), arms=None if a is None or b is not None else arms_named(found, a), task=task, most=most
    )
    if as_json:
        print(json.dumps({"run": str(found.folder.resolve())} | reasons.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        render_why.why(found, reasons, show_all=show_all)


def _pairs(found: Results, a: str | None, b: str | None) -> Sequence[tuple[str, str]] | None:
    """Return the pairs that were asked for; None stands for all of them."""
    from loopbench.experiments.why.arms import pairs_named

    if a is None:
        return None
    return () if b is None else pairs_named(found, a, b)


def _trial(found: Results, record: Record, *, as_json: bool) -> None:
    """One trial by itself."""
    from loopbench.experiments.why.why import Lost, loss_of

    from . import render_why

    if record.status != "scored" or record.accuracy >= 1:
        state = "was solved" if record.status == "scored" else f"is {record.status}: {record.reason}"
        raise ValueError(f"{record.arm}/{record.task}/{record.repeat} {state}; there is no loss to explain")
    lost = Lost(record.task, record.repeat, record.stop, loss_of(found, record))
    if as_json:
        print(json.dumps({"run": str(found.folder.resolve()), "arm": record.arm} | lost.to_json(), ensure_ascii=True))
    else:
        render_why.lost(found, record.arm, lost)
