"""`whichloop export`: write the traces of a run in a format that other tools read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .flags import LATEST, RUNS, Run, Runs


def export(
    run: Run = LATEST,
    format_: Annotated[str, typer.Option("--format", metavar="NAME", help="atif, otlp, or jsonl: our records, traces.")] = "atif",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Folder, file, or address of an OTLP endpoint.")
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Write each kept trial of a run in a format that other tools read."""
    from whichloop.experiments.export_runs.export import LINES, SUFFIXES, export_run, send_run
    from whichloop.protocol.values import counted
    from whichloop.runs.folders import run_folder, trials_folder

    from .console import say

    folder = trials_folder(run_folder(run, runs))
    if output is not None and output.startswith(("http://", "https://")):
        say(f"sent the spans of {counted(send_run(folder, output), 'trial')}")
        return
    if output is not None and format_ in SUFFIXES:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    out = Path(output or f"{folder.resolve().name}-{format_}{SUFFIXES.get(format_, '')}")
    trials, untraced = export_run(folder, format_, out)
    without = f"; {untraced} have no trace" if untraced else ""
    back = f"; read them back: {shlex.join(['whichloop', 'import', str(out)])}" if format_ != LINES else ""
    say(f"wrote {counted(trials, 'trial')} to {out}{without}{back}")
