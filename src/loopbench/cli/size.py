"""`loopbench size`: how large a run has to be, before money is spent on it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .folders import run_folder

if TYPE_CHECKING:
    from loopbench.experiments.size import Sizing


class Purpose(StrEnum):
    """What a run is for."""

    COMPARE = "compare"
    GATE = "gate"


def size(
    run: Annotated[Path, typer.Argument(help="Run directory of a pilot, its name under runs/, or `latest`.", show_default=False)],
    again: Annotated[
        Path | None, typer.Option(help="A second run of the same configuration with another seed: their noise is measured.")
    ] = None,
    purpose: Annotated[Purpose | None, typer.Option("--for", help="What is to be planned [default: both].")] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Of accuracy in points from 0 to 1, of any other metric a share [default: 0.02; of a gate on another metric 0.1]."
        ),
    ] = None,
    power: Annotated[float, typer.Option(help="Chance of the decision that is planned for.")] = 0.8,
    alpha: Annotated[float | None, typer.Option(help="Level of the tests [default: the pilot's].")] = None,
    metric: Annotated[str, typer.Option(help="accuracy, steps, lm_calls, tokens, cost_usd, nominal_usd or seconds.")] = "accuracy",
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say from a pilot run how many tasks and repeats a decision takes, and what they cost; no model is called."""
    from loopbench.experiments import size as sizing
    from loopbench.experiments.compare.results import results
    from loopbench.runs.folders import trials_folder

    wanted = sizing.SizeRequest(metric, margin, alpha, power, sizing.PURPOSES if purpose is None else (purpose.value,))
    found, second = (None if name is None else results(trials_folder(run_folder(name, runs))) for name in (run, again))
    assert found is not None  # RUN has to be given
    made = sizing.size(found, wanted, second)
    if as_json:
        print(json.dumps(made.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        _print(made)


def _print(made: Sizing) -> None:
    from rich.text import Text

    from loopbench.experiments.compare.tables import plain
    from loopbench.experiments.size import tables as report

    from . import render

    console = render.out()
    for answer in report.answers(made):
        console.print(Text(plain(answer), style="bold"), soft_wrap=True)
    for table in report.tables(made):
        render.table(table, console)
    for doubt in made.doubts:
        console.print(Text(plain(doubt), style="dim"), soft_wrap=True)
