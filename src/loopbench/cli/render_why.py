"""Prints what `loopbench why` found."""

from __future__ import annotations

from collections.abc import Iterable

from loopbench.reports.why_lines import Shown
from loopbench.text.output import OutputLine, Prose

from .console import out, print_line, print_prose
from .tables import print_table


def print_shown(lines: Iterable[Shown]) -> None:
    """Print lines, sentences and tables."""
    for line in lines:
        if isinstance(line, OutputLine):
            print_line(line.text, line.style)
        elif isinstance(line, Prose):
            print_prose(line.text, line.style, indent=line.indent, hanging=line.hanging)
        else:
            print_table(line, out())
