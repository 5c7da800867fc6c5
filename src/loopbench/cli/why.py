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
    from loopbench.experiments.why.why import why as find
    from loopbench.runs.folders import trials_folder

    from . import render_why

    found = results(trials_folder(run_folder(run, runs)))
    if a is not None and b is None and not _arms(found, a):
        _trial(found, find_record(found, a), as_json=as_json)
        return
    most = None if show_all or as_json else MIN
    reasons = find(
        found, pairs=_pairs(found, a, b), arms=None if a is None or b is not None else _arms(found, a), task=task, most=most
    )
    if as_json:
        print(json.dumps({"run": str(found.folder.resolve())} | reasons.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        render_why.why(found, reasons, show_all=show_all)


def _pairs(found: Results, a: str | None, b: str | None) -> Sequence[tuple[str, str]] | None:
    """Those asked for; None: all. Raises RunError for a name that is no arm's, or for arms that are not comparable."""
    from loopbench.experiments.why.why import comparable
    from loopbench.runs.store.files import RunError

    if a is None:
        return None
    if b is None:
        return ()
    ones, others = _known(found, a), _known(found, b)
    every = set(comparable(found))
    pairs = [(one, other) for one in ones for other in others if (one, other) in every or (other, one) in every]
    if not pairs:
        raise RunError(f"{found.folder}: {a} and {b} are no two arms that met the same tasks under the same profile")
    return pairs


def _known(found: Results, name: str) -> list[str]:
    from loopbench.runs.store.files import RunError

    arms = _arms(found, name)
    if not arms:
        raise RunError(f"{found.folder}: no arm {name!r}; there are {', '.join(arm.info.arm for arm in found.comparison.arms)}")
    return arms


def _arms(found: Results, name: str) -> list[str]:
    """The arm of that name, or the arms of that loop."""
    arms = [arm.info.arm for arm in found.comparison.arms]
    return [name] if name in arms else [arm for arm in arms if arm.startswith(f"{name}/")]


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
