"""Rows of cells as lines: side by side on a terminal, between tabs in a file or a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from whichloop.text.output import wrapped_words

from .console import WIDE

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
