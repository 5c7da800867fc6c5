"""An optimization on the terminal: its verdicts, tables and programs, and the exit code that they mean."""

from __future__ import annotations

import json

from rich.text import Text

from loopbench.experiments.optimize.result import OptimizationResult
from loopbench.experiments.optimize.tables import notes, tables, to_markdown, verdicts
from loopbench.text.plain_text import plain

from .codes import DONE, FAILED, INVALID
from .console import out
from .render import print_note
from .tables import print_table

IMPORTANT = ("Warning", "The test is invalid")
"""Beginnings of the notes that are printed in any case."""


def exit_code(found: OptimizationResult) -> int:
    """Return FAILED if an optimizer failed: the program that was kept is then hardly the one that was asked for."""
    if found.invalid:
        return INVALID
    return FAILED if any(design.status == "failed" for design in found.designs) else DONE


def print_optimization(found: OptimizationResult, form: str, *, verbose: bool) -> None:
    """Print an optimization; `form`: json, markdown or tables: the first one and the verdict, or all if `verbose`."""
    if form == "json":
        print(json.dumps(found.to_json(), ensure_ascii=True, allow_nan=False))
        return
    if form == "markdown":
        print(to_markdown(found), end="")
        return
    console = out()
    console.print(Text(plain(found.title), style="bold"))
    made = tables(found)
    for table in made if verbose else made[:1]:
        print_table(table, console)
    for design in found.designs:
        if design.program is not None:
            console.print(Text(plain(f"{design.design}: {design.program}"), style="dim"), soft_wrap=True)
    for note in notes(found):
        if verbose or note.startswith(IMPORTANT):
            print_note(note, console)
    for line in verdicts(found):
        console.print(Text(plain(line), style="bold"))
