"""Tables on the terminal, and which of their columns fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from whichloop.experiments.compare.tables import STOPS, UNDER
from whichloop.text.output import terminal_safe, wrapped_words
from whichloop.text.table import Table

from .console import WIDE, print_cells, print_unpadded

WRAPPED = (STOPS, "errors", "meaning", "note", "fitted from")
"""Columns whose cells may wrap."""
KEYS = ("b", UNDER)
"""Columns behind the first that name a row, too."""


def print_table(table: Table, console: Console) -> None:
    """Print a table as a grid, in pieces or row by row on a narrow terminal, and with tabs in a pipe or a file."""
    if console.width >= WIDE:
        if table.title:
            console.print(Text(f"\n{terminal_safe(table.title)}"))
        for row in (table.columns, *table.rows):
            print_cells(row, console)
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


Rows = Sequence[Sequence[Text]]
"""Rows of as many cells each, the heading first."""
GAP = 2
"""Spaces between columns."""
MIN_HEAD = 6
"""Columns of a head that is folded."""


def widest_fitting(forms: Iterable[Rows], width: int) -> tuple[Rows, bool]:
    """Return the first form, the widest, that fits into `width` columns of a terminal, and whether it does; else the last."""
    rows: Rows = ()
    for rows in forms:
        if sum(_widths(rows)) + GAP * (len(rows[0]) - 1) <= width:
            return rows, True
    return rows, False


def with_folded_heads(rows: Rows) -> Rows:
    """Return rows whose heads that are wider than what stands below them are folded into several lines, at spaces and hyphens.

    No word is broken: a column is as wide as the longest part of its head.
    """
    columns = range(len(rows[0]))
    below = [max((row[n].cell_len for row in rows[1:]), default=0) for n in columns]
    heads = [_folded(rows[0][n], max(room, MIN_HEAD)) for n, room in zip(columns, below, strict=True)]
    lines = [[head[line] if line < len(head) else Text("") for head in heads] for line in range(max(map(len, heads)))]
    return [*lines, *rows[1:]]


def _folded(head: Text, room: int) -> list[Text]:
    widest_part = max(map(cell_len, re.split(r"\s+|(?<=-)", head.plain)))
    lines = wrapped_words(head.plain, max(room, widest_part), break_on_hyphens=True)
    return [Text(line, style=head.style) for line in lines] or [head]


def side_by_side(rows: Rows, width: int) -> Iterator[Text]:
    """Yield a line per row, its cells in columns, or between tabs where nothing is cut or wrapped."""
    if width >= WIDE:
        yield from (Text("\t").join(row) for row in rows)
        return
    widths = _widths(rows)
    for row in rows:
        line = Text()
        for cell, room in zip(row, widths, strict=True):
            line.append_text(cell)
            line.append(" " * (room - cell.cell_len + GAP))
        line.rstrip()
        yield line


def folded(forms: Iterable[Rows], width: int) -> Iterator[Text]:
    """Yield the widest form that fits side by side; if none does, the same with each row's name in a line above its other cells."""
    all_forms = list(forms)
    rows, fits = widest_fitting(all_forms, width)
    if fits:
        yield from side_by_side(rows, width)
        return
    below, _ = widest_fitting([[[Text(""), *row[1:]] for row in rows] for rows in all_forms], width)
    for row, line in zip(rows, side_by_side(below, width), strict=True):
        yield row[0]
        yield line


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines as they are: no terminal wraps them, and tabs stay tabs in a file or a pipe."""
    for line in lines:
        if console.width >= WIDE:
            print(line.plain, file=console.file)
        else:
            console.print(line, soft_wrap=True)


def _widths(rows: Rows) -> list[int]:
    return [max(row[n].cell_len for row in rows) for n in range(len(rows[0]))]
