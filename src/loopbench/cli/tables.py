"""Tables on the terminal."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from loopbench.text.plain_text import plain
from loopbench.text.table import Table

WRAPPED = ("stops", "errors", "meaning", "note", "fitted from")
"""Columns whose cells may wrap."""


def print_table(made: Table, console: Console) -> None:
    """Print a table as a grid if the terminal is wide enough, otherwise row by row."""
    (_grid if _narrowest(made) <= console.width else _stack)(made, console)


def _narrowest(table: Table) -> int:
    """Return the terminal width that a table needs: cells of counts may wrap at spaces, others may not."""
    cells = [[column, *(row[i] for row in table.rows)] for i, column in enumerate(table.columns)]
    widths = [max(map(len, column if column[0] not in WRAPPED else " ".join(column).split())) for column in cells]
    return sum(widths) + 3 * len(widths) + 1  # a space on either side, and a line between


def _grid(table: Table, console: Console) -> None:
    drawn = Grid(title=Text(plain(table.title)) if table.title else None, title_justify="left", box=SIMPLE, pad_edge=False)
    for column in table.columns:
        drawn.add_column(column, no_wrap=column not in WRAPPED)
    for row in table.rows:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    console.print(drawn)


def _stack(table: Table, console: Console) -> None:
    """Print a block per row and a line per column, for a narrow terminal."""
    console.print(Text(f"\n{plain(table.title)}", style="italic"))
    for row in table.rows:
        console.print(Text(plain(row[0]), style="bold"))
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            if cell:
                console.print(Text(f"  {column}: {plain(cell)}"))
