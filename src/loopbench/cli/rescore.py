"""`loopbench rescore`: the answers of a run judged again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .flags import Allow, Json, Run, Runs
from .folders import run_folder
from .own_prints import own_prints_aside
from .report import write_report

if TYPE_CHECKING:
    from loopbench.experiments.compare.rescore import Rescored
    from loopbench.metrics.statistics import Interval


def rescore(
    run: Run,
    runs: Runs = None,
    allow: Allow = None,
    data: Annotated[Path | None, typer.Option(help="File of the suite, where it is another by now.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Judge a run's answers again by today's scorers and expected answers; no model is asked, no tool is called."""
    from loopbench.experiments.compare.rescore import rescore as rescored

    folder = run_folder(run, runs)
    with own_prints_aside():
        made = rescored(folder, allow or (), data)
    if as_json:
        print(json.dumps(made.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        _print(made)
    write_report(made.found)


def _print(made: Rescored) -> None:
    from loopbench.experiments.compare.tables import plain
    from loopbench.text.table import Table

    from . import render

    console = render.out()
    console.print(plain(f"{made.judged} of {len(made.found.records)} trials were judged again: {made.changed} count otherwise now"))
    rows = [(arm.arm, _shown(arm.before), _shown(arm.after), str(arm.changed)) for arm in made.arms]
    render.table(Table("Accuracy", ("arm", "before", "after", "changed"), tuple(rows)), console)
    for why, count in made.kept.items():
        console.print(plain(f"{count} trials keep their scores: {why}"))


def _shown(accuracy: Interval | None) -> str:
    if accuracy is None:
        return "–"
    return f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] (n = {accuracy.n})"
