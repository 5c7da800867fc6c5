"""`loopbench import`: read what other tools measured into a run directory, for report, size, bless and gate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .codes import DONE, INVALID
from .report import Json, Runs, print_results, write_report


class ImportFormat(StrEnum):
    """Of a file."""

    INSPECT = "inspect"
    PYDANTIC_EVALS = "pydantic-evals"
    CSV = "csv"


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Logs of Inspect, reports of pydantic-evals, tables; as many as are to be compared.", show_default=False
        ),
    ],
    name: Annotated[
        Path | None,
        typer.Option("--name", "-o", help="The run's name under runs/, or a path [default: made up].", show_default=False),
    ] = None,
    format_: Annotated[
        ImportFormat | None, typer.Option("--format", help="Of all files [default: each file tells].", show_default=False)
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option(help="Name of the arm of each file in turn; equal names are repeats of one.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help="Scorer, evaluator or column whose score is the accuracy.")] = None,
    scale: Annotated[str | None, typer.Option(help="Scale of numeric scores, WORST,BEST such as 0,100 [default: 0,1].")] = None,
    cluster: Annotated[str | None, typer.Option(help="Metadata key, or column, of what tasks share, such as a template.")] = None,
    errors_as_failures: Annotated[
        bool, typer.Option("--errors-as-failures", help="Score trials that an error ended 0: it was the agent's own.")
    ] = False,
    suite: Annotated[str | None, typer.Option(help="Name of the list of tasks [default: the files tell].")] = None,
    alpha: Annotated[float | None, typer.Option(help="Level of tests and intervals [default: 0.05].")] = None,
    margin: Annotated[float | None, typer.Option(help="Accuracy difference of no consequence [default: 0.02].")] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Read what other tools measured, and compare it: Inspect logs, pydantic-evals reports, CSV, TSV or JSON lines."""
    from loopbench.experiments.compare.results import results
    from loopbench.experiments.import_runs import ImportRequest, ReadingOptions, ScoreScale, import_files
    from loopbench.metrics.comparison import MARGIN
    from loopbench.metrics.statistics import ALPHA
    from loopbench.runs.folders import RUNS

    from . import render

    wanted = ImportRequest(
        format=None if format_ is None else format_.value,
        reading=ReadingOptions(scorer, None if scale is None else ScoreScale.parse(scale), cluster, errors_as_failures),
        arms=arm or (),
        suite=suite,
        alpha=ALPHA if alpha is None else alpha,
        margin=MARGIN if margin is None else margin,
    )
    below = runs or RUNS
    folder = None if name is None else name if len(name.parts) > 1 else below / name
    made = import_files(files, wanted, folder, below)
    found = results(made.folder)
    print_results(found, as_json=as_json)
    write_report(found)
    for note in made.notes:
        render.say(note)
    render.say(f"run directory: {made.folder}")
    raise typer.Exit(INVALID if found.comparison.invalid else DONE)
