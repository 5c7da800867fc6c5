"""An optimization on the terminal: its verdicts, tables and programs, and the exit code that they mean."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.text import Text

from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.optimize.tables import BRIEF, brief_rows, optimization_notes, optimization_tables, to_markdown, verdicts
from whichloop.text.output import plain_line, terminal_safe

from .console import out, print_prose, with_whole_intervals
from .process import DONE, FAILED
from .render import code_of_run, print_note
from .tables import Rows, folded, print_lines, print_table


@dataclass(frozen=True, slots=True)
class DesignForm:
    """What of a design is shown on a terminal of some width."""

    columns: tuple[str, ...]
    short: bool
    """Whether numbers have two digits only."""


WITHOUT_BEFORE = ("design", "test after", "gain", "tokens a task", "verdict")
WITHOUT_TOKENS = ("design", "test after", "gain", "verdict")
FORMS = (
    DesignForm(BRIEF, short=False),
    DesignForm(BRIEF, short=True),
    DesignForm(WITHOUT_BEFORE, short=True),
    DesignForm(WITHOUT_TOKENS, short=True),
)
"""The widest form comes first."""
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
    print_lines(folded(map(partial(_rows, result), FORMS), console.width), console)
    for note in optimization_notes(result):
        if note.startswith(IMPORTANT):
            print_note(note)
    if example := _diff(result):
        console.print(Text(terminal_safe(example), style="dim"), soft_wrap=True)
    for line in verdicts(result):
        print_prose(with_whole_intervals(line), "bold")


def _print_details(result: OptimizationResult, console: Console) -> None:
    """Print the tables, the file of each program, and what to keep in mind."""
    for table in optimization_tables(result):
        print_table(table, console)
    for design in result.designs:
        if design.program is not None:
            console.print(Text(terminal_safe(f"{design.design}: {design.program}"), style="dim"), soft_wrap=True)
    for note in optimization_notes(result):
        if not note.startswith(IMPORTANT):
            print_note(note)


def _rows(result: OptimizationResult, form: DesignForm) -> Rows:
    """Return a heading and a row per design."""
    columns = [BRIEF.index(column) for column in form.columns]
    heading = [Text(column, style="dim") for column in form.columns]
    rows = ([Text(plain_line(row[column])) for column in columns] for row in brief_rows(result, short=form.short))
    return [heading, *rows]


def _diff(result: OptimizationResult) -> str:
    """Return the command that shows what changed in a design whose program is another one than before."""
    changed = [design for design in result.designs if design.program is not None and not design.is_unchanged]
    if not changed:
        return ""
    words = shlex.join(["whichloop", "diff", changed[0].design, str(changed[0].program)])
    others = f"; the other programs are below {changed[0].folder.parent}" if len(changed) > 1 else ""
    return f"What changed in {changed[0].design}: {words}{others}"
