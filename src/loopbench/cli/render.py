"""What the commands print: results to stdout, everything said about them to stderr."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopbench.checks.loop import LAWS, Finding
from loopbench.checks.loop.scaffold import Scaffold
from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.several_runs import SeveralRuns
from loopbench.experiments.compare.several_runs import notes as collection_notes
from loopbench.experiments.compare.several_runs import tables as collection_tables
from loopbench.experiments.compare.several_runs import verdicts as collection_verdicts
from loopbench.experiments.compare.tables import notes, plain, tables, verdicts
from loopbench.text.table import Table as Lines

from .catalogue import CatalogueEntry, CatalogueSuite
from .console import out as out
from .console import say as say


def results(found: Results, *, all_metrics: bool = False) -> None:
    """The verdicts of a run, its tables, and what to keep in mind."""
    console = out()
    console.print(Text(plain(found.title), style="bold"))
    for verdict in verdicts(found.comparison):
        console.print(Text(plain(verdict), style="bold"))
    for made in tables(found.comparison, found.views, secondary=all_metrics):
        table(made, console)
    if not all_metrics:
        more = f"loopbench report {shlex.quote(str(found.folder))} --all-metrics"
        console.print(Text(plain(f"Other metrics, equal budgets, repeats, confidence: {more}"), style="dim"), soft_wrap=True)
    for note in notes(found.comparison):
        console.print(Text(plain(note), style="yellow" if note.startswith("Warning") else "dim"))


def aside(line: str) -> None:
    """What is good to know beside the results, to stdout."""
    out().print(Text(plain(line), style="dim"), soft_wrap=True)


def collection(found: SeveralRuns) -> None:
    """Several runs: the matrix of (suite, profile) × loops, all pairs, and how often each loop is the highest."""
    console = out()
    for made in collection_tables(found):
        table(made, console)
    for verdict in collection_verdicts(found):
        console.print(Text(plain(verdict), style="bold"))
    for note in collection_notes(found):
        console.print(Text(plain(note), style="yellow" if note.startswith("Warning") else "dim"))


def table(made: Lines, console: Console) -> None:
    """As a grid where the terminal is wide enough, else row by row."""
    (_grid if _narrowest(made) <= console.width else _stack)(made, console)


def _narrowest(table: Lines) -> int:
    """Columns of a terminal that a table needs: cells of counts may wrap at spaces, others may not."""
    cells = [[column, *(row[i] for row in table.rows)] for i, column in enumerate(table.columns)]
    widths = [max(map(len, column if column[0] not in WRAPPED else " ".join(column).split())) for column in cells]
    return sum(widths) + 3 * len(widths) + 1  # a space on either side, and a line between


WRAPPED = ("stops", "errors", "meaning", "note", "fitted from")


def _grid(table: Lines, console: Console) -> None:
    drawn = Table(title=Text(plain(table.title)) if table.title else None, title_justify="left", box=SIMPLE, pad_edge=False)
    for column in table.columns:
        drawn.add_column(column, no_wrap=column not in WRAPPED)
    for row in table.rows:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    console.print(drawn)


def _stack(table: Lines, console: Console) -> None:
    """For a narrow terminal: a block per row, a line per column."""
    console.print(Text(f"\n{plain(table.title)}", style="italic"))
    for row in table.rows:
        console.print(Text(plain(row[0]), style="bold"))
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            if cell:
                console.print(Text(f"  {column}: {plain(cell)}"))


def catalogue(entries: Sequence[CatalogueEntry]) -> None:
    """Names, what they are, and their options."""
    console = out()
    for entry in entries:
        console.print(Text.assemble((entry.name, "bold"), f"  {plain(entry.summary)}"), soft_wrap=True)
        if isinstance(entry, CatalogueSuite):
            console.print(Text(f"    {_known_of(entry)}"), soft_wrap=True)
        for option in entry.options:
            console.print(Text(f"    {option.name} = {option.default}  {plain(option.doc)}", style="dim"), soft_wrap=True)


def _known_of(suite: CatalogueSuite) -> str:
    if suite.needs:
        return f"needs {suite.needs}"
    splits = ", ".join(f"{count} {split}" for split, count in suite.splits.items()) or "no splits"
    plan = f"median plan {suite.median_plan:g} calls"
    return f"version {suite.version}, {suite.tasks} tasks ({splits}), {plan}, digest {suite.digest}"


_MARKS = {"ok": ("ok", "green"), "failed": ("FAILED", "bold red"), "not applicable": ("not applicable", "yellow")}


def finding(found: Finding) -> None:
    """A line for a law, and one for what was found where it does not hold."""
    console = out()
    says = next(law.says for law in LAWS if law.name == found.law)
    mark, style = _MARKS[found.status]
    console.print(Text.assemble((f"{mark:<15}", style), f"{found.law:<17}", (says, "dim")), soft_wrap=True)
    if found.detail:
        console.print(Text(f"{'':15}{plain(found.detail)}"), soft_wrap=True)


def findings_in_all(name: str, found: Sequence[Finding]) -> None:
    """The last line of a check."""
    failed = sum(finding.status == "failed" for finding in found)
    total = f"{failed} of {len(found)} laws do not hold" if failed else "every law holds"
    out().print(Text(f"{name}: {total}", style="bold"), soft_wrap=True)


def scaffold(made: Scaffold) -> None:
    """What was written, and what to type next."""
    print(f"wrote {plain(str(made.loop))} and {plain(str(made.test))}; next:")
    if made.root != Path.cwd():
        print(f"  cd {shlex.quote(str(made.root))}")
    print(f"  loopbench check loop {made.target}")
    print(f"  loopbench compare --loop {made.target} --loop bare")
