"""Prints what `whichloop why` found."""

from __future__ import annotations

from collections.abc import Iterable

from whichloop.reports.why_lines import Shown
from whichloop.text.table import Table

from .console import out, print_text
from .tables import print_table


def print_shown(lines: Iterable[Shown]) -> None:
    """Print lines, sentences and tables."""
    for line in lines:
        if isinstance(line, Table):
            print_table(line, out())
        else:
            print_text(line)
