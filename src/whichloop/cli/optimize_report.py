"""An optimization on the terminal: its verdicts, tables and programs, and the exit code that they mean."""

from __future__ import annotations

import json
import shlex

from rich.console import Console
from rich.text import Text

from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.optimize.tables import BRIEF, brief_rows, optimization_notes, optimization_tables, to_markdown, verdicts
from whichloop.text.doc import Table
from whichloop.text.output import terminal_safe

from .console import WIDE, out, print_prose, show_table
from .process import DONE, FAILED
from .render import code_of_run, print_note

IMPORTANT = ("Warning", "The test is invalid")
"""Beginnings of the notes that are printed in any case."""


def exit_code(result: OptimizationResult) -> int:
    """Return the code of the test, as `report` has it, unless that is DONE; else FAILED if an optimizer failed.

    The program that is kept after such a failure is hardly the one that was asked for.
    """
    if result.test is not None and (code := code_of_run(result.test)) != DONE:
        return code
    return FAILED if any(design.status == "failed" for design in result.designs) else DONE


def print_optimization(result: OptimizationResult, form: str, *, verbose: bool) -> None:
    """Print an optimization; `form`: json, markdown or tables: a row per design and the verdicts, after all tables if `verbose`."""
    if form == "json":
        print(json.dumps(result.to_json(), ensure_ascii=True, allow_nan=False))
        return
    if form == "markdown":
        print(to_markdown(result), end="")
        return
    console = out()
    if verbose:
        _print_details(result, console)
    console.print(Text(terminal_safe(result.title), style="bold"), soft_wrap=True)
    show_table(Table("", BRIEF, tuple(brief_rows(result, short=console.width < WIDE))))
    for note in optimization_notes(result):
        if note.startswith(IMPORTANT):
            print_note(note)
    if example := _diff(result):
        console.print(Text(terminal_safe(example), style="dim"), soft_wrap=True)
    for line in verdicts(result):
        print_prose(line, "bold")


def _print_details(result: OptimizationResult, console: Console) -> None:
    """Print the tables, the file of each program, and what to keep in mind."""
    for table in optimization_tables(result):
        show_table(table)
    for design in result.designs:
        if design.program is not None:
            console.print(Text(terminal_safe(f"{design.design}: {design.program}"), style="dim"), soft_wrap=True)
    for note in optimization_notes(result):
        if not note.startswith(IMPORTANT):
            print_note(note)


def _diff(result: OptimizationResult) -> str:
    """Return the command that shows what changed in a design whose program is another one than before."""
    changed = [design for design in result.designs if design.program is not None and not design.is_unchanged]
    if not changed:
        return ""
    words = shlex.join(["whichloop", "prompts", changed[0].design, str(changed[0].program)])
    others = f"; the other programs are below {changed[0].folder.parent}" if len(changed) > 1 else ""
    return f"What changed in {changed[0].design}: {words}{others}"
