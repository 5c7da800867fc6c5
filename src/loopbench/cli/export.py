"""`loopbench export`: write the traces of a run in a format that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from loopbench.experiments.export_runs.export import export_run
from loopbench.runs.config import IfAbsent
from loopbench.runs.folders import trials_folder

from .console import say
from .options import OptionGroup, RunChoice, with_options


class ExportOptions(OptionGroup):
    format_: Annotated[Literal["atif"], typer.Option("--format")] = "atif"
    """Format of the files: atif, the trajectories of Harbor and others."""
    out: Annotated[Path | None, typer.Option("--out", "-o"), IfAbsent("RUN-FORMAT, here")] = None
    """Folder to write to; it must not exist."""


@with_options()
def export(choice: RunChoice, options: ExportOptions) -> None:
    """Write each kept trial of a run in a format that other tools read, a file each."""
    folder = trials_folder(choice.folder)
    out = options.out or Path(f"{folder.resolve().name}-{options.format_}")
    made = export_run(folder, options.format_, out)
    left = f"; {made.untraced} have no trace" if made.untraced else ""
    say(f"wrote {made.trials} trials to {made.folder}{left}; read them back: loopbench import {made.folder}")
