"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from whichloop.experiments.compare.tables import STOPS, UNDER
from whichloop.text.output import terminal_safe
from whichloop.text.table import Table

from .console import WIDE, print_cells, print_unpadded

WRAPPED = (STOPS, "errors", "meaning", "note", "fitted from")
"""Columns whose cells may wrap."""
KEYS = ("b", UNDER)
"""Columns behind the first that name a row, too."""


def print_table(table: Table, console: Console) -> None:
    """Print a table as a grid, in pieces or row by row on a narrow terminal, and with tabs in a pipe or a file."""
    if console.width >= WIDE:
        _tabbed(table, console)
        return
    pieces = list(_pieces(table, console.width))
    for piece in pieces:
        _grid(piece, console)
    if not pieces:
        _stack(table, console)


def _pieces(table: Table, width: int) -> Iterator[Table]:
    """Yield the table in pieces that are narrow enough, each with the columns that name a row; none if one column is too wide."""
    keys = 1 + sum(1 for _ in takewhile(KEYS.__contains__, table.columns[1:]))
    parts: list[list[int]] = [[]]
    for column in range(keys, len(table.columns)):
        if parts[-1] and _narrowest(_part(table, keys, [*parts[-1], column])) > width:
            parts.append([])
        parts[-1].append(column)
    pieces = [_part(table, keys, part) for part in parts]
    if all(_narrowest(part) <= width for part in pieces):
        yield from (replace(part, title=table.title if number == 0 else "") for number, part in enumerate(pieces))


def _part(table: Table, keys: int, columns: Sequence[int]) -> Table:
    places = (*range(keys), *columns)
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return Table(table.title, tuple(table.columns[place] for place in places), rows)


def _tabbed(table: Table, console: Console) -> None:
    if table.title:
        console.print(Text(f"\n{terminal_safe(table.title)}"))
    for row in (table.columns, *table.rows):
        print_cells(row, console)


def _narrowest(table: Table) -> int:
    """Return the terminal width that a table needs: cells of counts may wrap at spaces, others may not."""
    cells = [[column, *(row[i] for row in table.rows)] for i, column in enumerate(table.columns)]
    widths = [max(map(cell_len, column if column[0] not in WRAPPED else " ".join(column).split())) for column in cells]
    return sum(widths) + 3 * len(widths) + 1  # a space on either side, and a line between


def _grid(table: Table, console: Console) -> None:
    drawn = Grid(title=Text(terminal_safe(table.title)) if table.title else None, title_justify="left", box=SIMPLE, pad_edge=False)
    for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
        wraps = column in WRAPPED
        longest = max((cell_len(word) for cell in cells for word in terminal_safe(cell).split()), default=0)
        drawn.add_column(
            column, no_wrap=not wraps, min_width=longest if wraps else None
        )  # rich would cut a word to balance columns
    for row in table.rows:
        drawn.add_row(*(Text(terminal_safe(cell)) for cell in row))
    print_unpadded(drawn, console)


def _stack(table: Table, console: Console) -> None:
    """Print a block per row and a line per column, for a narrow terminal."""
    console.print(Text(f"\n{terminal_safe(table.title)}", style="italic"))
    for row in table.rows:
        console.print(Text(terminal_safe(row[0]), style="bold"))
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            if cell:
                console.print(Text(f"  {column}: {terminal_safe(cell)}"))
