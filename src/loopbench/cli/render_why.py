"""Prints what `loopbench why` found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from loopbench.reports.why_lines import Shown
from loopbench.text.output import Prose
from loopbench.text.table import Table

from .console import out, print_text
from .tables import print_table

PADDING = re.compile(r"(?<=\S) {2,}(?=\S)")


def print_shown(lines: Iterable[Shown]) -> None:
    """Print lines, sentences and tables; without a terminal no column is padded."""
    for line in lines:
        if isinstance(line, Table):
            print_table(line, out())
        elif isinstance(line, Prose) and not out().is_terminal:
            print_text(replace(line, text=PADDING.sub(" ", line.text)))
        else:
            print_text(line)
