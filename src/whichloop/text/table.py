"""A table of text, and tables as Markdown and CSV: what a cell holds is data, and is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .output import plain_line, terminal_safe

_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
"""Characters that a spreadsheet may take for the start of a formula (OWASP, CSV injection)."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, column names, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Return the table as a notebook's or a terminal's `print` shows it: the heading, then columns of equal width."""
        lines = [[plain_line(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        printed_rows = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines)
        return "\n".join([plain_line(self.title), *printed_rows])


def markdown_page(title: str, tables: Sequence[Table], notes: Sequence[str], first: Sequence[str] = ()) -> str:
    """Return a page in Markdown: a heading, a list of first sentences, tables, and a list of notes."""
    parts = [f"## {markdown_cell(title)}"]
    if first:
        parts.append("\n".join(f"- {markdown_item(line)}" for line in first))
    for table in tables:
        lines = [f"### {markdown_cell(table.title)}", "", _line(table.columns), _line(["---"] * len(table.columns))]
        parts.append("\n".join([*lines, *(_line([markdown_cell(cell) for cell in row]) for row in table.rows)]))
    parts.append("\n".join(f"- {markdown_item(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_cell(text: str) -> str:
    """Return text as one line in which Markdown and HTML marks are literal."""
    escaped = plain_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_~\[\]])", r"\\\1", escaped)


def markdown_item(text: str) -> str:
    """Return an item of a list whose first characters do not begin a heading, rule or list."""
    return re.sub(r"^(\d{0,9})([#+=.)-])", r"\1\\\2", markdown_cell(text))


def markdown_block(text: str) -> str:
    """Return lines as a literal block, in a fence longer than any inside it."""
    safe = terminal_safe(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", safe)), default=0))
    return f"{fence}text\n{safe}\n{fence}"


def csv_cell(text: str) -> str:
    safe = terminal_safe(text)
    return f"'{safe}" if safe.startswith(_FORMULA) and not _NUMBER.fullmatch(safe) else safe
