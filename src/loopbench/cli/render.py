"""What the commands print: results to stdout, everything said about them to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopbench.experiments.catalogue import Entry
from loopbench.experiments.compare import Results
from loopbench.experiments.report import notes, plain, tables
from loopbench.experiments.show import blocks

WIDE = 200
"""Columns of a table that goes to a file or a pipe."""


def out() -> Console:
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDE)


def say(line: str) -> None:
    """One line to stderr."""
    print(plain(line), file=sys.stderr)


def results(found: Results) -> None:
    """The tables of a run, and what to keep in mind."""
    console = out()
    console.print(Text(plain(found.title), style="bold"))
    for table in tables(found.comparison):
        drawn = Table(title=table.title, title_justify="left", box=SIMPLE, pad_edge=False)
        for index, column in enumerate(table.columns):
            drawn.add_column(column, overflow="fold", no_wrap=index == 0 or column in ("accuracy", "difference"))
        for row in table.rows:
            drawn.add_row(*(Text(plain(cell)) for cell in row))
        console.print(drawn)
    for note in notes(found.comparison):
        console.print(Text(plain(note), style="yellow" if note.startswith("Warning") else "dim"))


_STYLES = {
    "head": "bold",
    "prompt": "dim",
    "reply": "cyan",
    "move": "green",
    "error": "red",
    "fault": "bold magenta",
    "end": "bold",
}


def trace(found: Mapping[str, Any], *, full: bool) -> None:
    """One trial, piece by piece."""
    console = out()
    for block in blocks(found, full=full):
        style = _STYLES.get(block.kind, "")
        console.print(Text(plain(f"── {block.label} "), style=style))
        lines = [f"   {line}" for line in plain(block.text).split("\n")]
        console.print(Text("\n".join(lines), style="dim" if block.kind == "prompt" else ""), soft_wrap=True)


def catalogue(entries: Sequence[Entry]) -> None:
    """Names, what they are, and their options."""
    console = out()
    for entry in entries:
        console.print(Text.assemble((entry.name, "bold"), f"  {plain(entry.summary)}"))
        for option in entry.options:
            console.print(Text(f"    {option.name} = {option.default}  {plain(option.doc)}", style="dim"))
