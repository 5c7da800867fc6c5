"""`whichloop import`: read what other tools measured into a run directory, for report, size, bless and gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .flags import RUNS, Json, Runs, Verbose

Format = typer.Option("--format", metavar="NAME", help="Format, such as inspect.")
OneByOne = typer.Option(metavar="NAME", help="Agent of each file in turn; equal names are repeats.")


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Logs, tables, trajectories, folders of jobs.")],
    name: Annotated[Path | None, typer.Option(metavar="NAME", help="Name of the run, or a path.")] = None,
    replace: Annotated[bool, typer.Option("--replace", metavar="", help="Replace a run so named.")] = False,
    format_: Annotated[str | None, Format] = None,
    arm: Annotated[list[str], OneByOne] = [],  # noqa: B006  # typer makes a new one
    model: Annotated[list[str], typer.Option(metavar="NAME", help="Model of each --arm in turn.")] = [],  # noqa: B006
    scorer: Annotated[str | None, typer.Option(metavar="NAME", help="What the accuracy is.")] = None,
    rows: Annotated[str | None, typer.Option(metavar="PLACE", help="List of rows in a JSON object: results.rows.")] = None,
    scale: Annotated[str | None, typer.Option(metavar="WORST,BEST", help="Scale of scores, such as 0,100.")] = None,
    map_: Annotated[list[str], typer.Option("--map", metavar="MEANING=COLUMN,…", help="What columns or places mean.")] = [],  # noqa: B006
    decimal_comma: Annotated[bool, typer.Option("--decimal-comma", metavar="", help="Numbers of a table are as 1.234,5.")] = False,
    errors_as_failures: Annotated[bool, typer.Option("--errors-as-failures", metavar="", help="Score errored trials 0.")] = False,
    max_left_out: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SHARE", help="Exit code 4 if more lack a score.")
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Import and compare results of other tools.

    It reads Inspect logs, pydantic-evals reports, tables (CSV, TSV, JSON, Parquet), runs of terminal-bench, ATIF, jobs of Harbor,
    tau-bench, tau2-bench, smolagents, OTLP, MLflow and LangSmith. A table has a row for each trial:

    whichloop import results.csv --map task=question,score=result
    """
    from whichloop.experiments.ablate.doc import run_doc
    from whichloop.experiments.compare.results import results
    from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, ScoreScale, import_files, parse_map, run_place
    from whichloop.protocol.values import counted

    from .console import say, say_table, show
    from .process import INVALID
    from .render import code_of_run, write_report

    parsed_scale = None if scale is None else ScoreScale.parse(scale)
    reading = ReadingOptions(scorer, rows, parsed_scale, parse_map(map_), errors_as_failures, decimal_comma)
    request = ImportRequest(format_, reading, arm, model, replace=replace)
    imported = import_files(files, request, run_place(name, runs), runs)
    run = results(imported.folder)
    for file, columns in imported.columns.items():
        say_table(file, ("column", "read as"), [(column, meaning or "not read") for column, meaning in columns.items()])
    for remark in (*imported.readings, *imported.remarks):
        say(remark)
    say(f"run directory: {imported.folder}")
    show(run_doc(run), as_json=as_json, verbose=verbose)
    write_report(run)
    code = INVALID if imported.apart else code_of_run(run)
    if max_left_out is not None and imported.share_left_out > max_left_out:
        left_out = f"{imported.share_left_out:.1%} of {counted(imported.trials, 'trial has', 'trials have')} no score"
        say(f"--max-left-out {max_left_out:g}: {left_out}")
        code = INVALID
    raise typer.Exit(code)
