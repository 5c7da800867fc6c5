"""`whichloop export`: write the traces of a run in a format that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.export_runs.export import FORMATS, SUFFIXES, export_run
from whichloop.experiments.export_runs.sending import send_run
from whichloop.protocol.values import counted
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import trials_folder

from .console import make_room, say
from .options import OptionGroup, ReadRunChoice, with_options


class ExportOptions(OptionGroup):
    format_: Annotated[str, typer.Option("--format")] = "atif"
    """Format to write: atif, trajectories as Harbor has them, a file per trial; or otlp, spans, a line per trial."""
    out: Annotated[Path | None, typer.Option("--out", "-o"), IfAbsent("RUN-FORMAT, here")] = None
    """Folder of atif, or file of otlp, to write; it must not exist."""
    otlp: str | None = None
    """Address of an OTLP endpoint, such as http://localhost:4318, to send the spans to instead of writing them."""


@with_options()
def export(choice: ReadRunChoice, options: ExportOptions) -> None:
    """Write each kept trial of a run in a format that other tools read."""
    folder = trials_folder(choice.folder)
    if options.otlp is not None:
        if options.out is not None:
            raise ValueError("--otlp and --out exclude each other: one sends, the other writes")
        say(f"sent the spans of {counted(send_run(folder, options.otlp), 'trial')}")
        return
    name = options.format_
    out = options.out or Path(f"{folder.resolve().name}-{name}{SUFFIXES.get(name, '')}")
    if options.out is not None and name in FORMATS:
        make_room(out)
    exported = export_run(folder, name, out)
    untraced = f"; {exported.untraced} have no trace" if exported.untraced else ""
    say(f"wrote {counted(exported.trials, 'trial')} to {exported.out}{untraced}; read them back: {exported.read_back}")
