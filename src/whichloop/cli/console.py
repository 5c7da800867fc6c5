"""Where commands write: results to stdout, messages about them to stderr, and files whose names were typed."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from whichloop.text.doc import Doc, Table, to_terminal
from whichloop.text.output import UNBROKEN, OutputLine, Prose, plain_line, prose_lines, terminal_safe, wrapped_words

WIDE = 10_000
"""Width of output to a file or a pipe, where nothing is cut or wrapped."""


MIN_TEXT = 30
"""Least width in columns of a text behind columns, however narrow the terminal is."""


def out() -> Console:
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(file=sys.stdout, highlight=False, width=None if has_width else WIDE)


def show(doc: Doc, *, as_json: bool = False, verbose: bool = False) -> None:
    """Print a document to stdout, or the data behind it as JSON. `verbose`: with its details."""
    if as_json:
        print(json.dumps(doc.data, ensure_ascii=True, allow_nan=False))
    else:
        to_terminal(doc, out(), detail=verbose)


def show_table(table: Table) -> None:
    """Print a table to stdout."""
    show(Doc("", (table,)))


def print_line(line: str, style: str = "") -> None:
    """Print one line to stdout, however long, with what is not safe for a terminal as codes."""
    out().print(Text(terminal_safe(line), style=style), soft_wrap=True)


def with_whole_intervals(sentence: str) -> str:
    """Return a sentence in which no line ends within brackets, such as those of an interval."""
    return re.sub(r"\[[^\[\]]*\]", lambda bracket: bracket.group().replace(" ", UNBROKEN), sentence)


def print_prose(sentence: str, style: str = "", *, indent: str = "", hanging: str | None = None) -> None:
    """Print a sentence to stdout, wrapped between words on a terminal, and as one line into a file or a pipe.

    `indent` stands before each line, or `hanging` before all but the first. `UNBROKEN` spaces are printed as spaces.
    """
    width = out().width
    whole = f"{indent}{sentence}".replace(UNBROKEN, " ")
    for line in [whole] if width >= WIDE else prose_lines(Prose(sentence, indent=indent, hanging=hanging), width):
        print_line(line, style)


def print_row(columns: Sequence[tuple[str, str, int]], text: str, style: str = "") -> None:
    """Print columns, each a text with its style and its width in cells, and a text behind them.

    A terminal wraps the text below its start; into a file or a pipe, tabs stand between the columns, without padding.
    """
    console = out()
    if console.width >= WIDE:
        print_cells([*(column for column, _, _ in columns), text], console)
        return
    indent = sum(width for _, _, width in columns)
    lines = wrapped_words(plain_line(text), max(console.width - indent, MIN_TEXT), break_long_words=False)
    first, *further = lines or [""]
    heads = [(f"{column}{' ' * (width - cell_len(column))}", column_style) for column, column_style, width in columns]
    console.print(Text.assemble(*heads, (first, style)), soft_wrap=True)
    for line in further:
        console.print(Text(f"{'':{indent}}{line}", style=style), soft_wrap=True)


def wrapped(words: str, style: str, width: int) -> list[Text]:
    """Return a sentence in lines of a terminal."""
    return [Text(line, style=style) for line in wrapped_words(plain_line(words), width)]


def print_text(line: OutputLine | Prose) -> None:
    """Print a line or a sentence with its style to stdout."""
    if isinstance(line, OutputLine):
        print_line(line.text, line.style)
    else:
        print_prose(line.text, line.style, indent=line.indent, hanging=line.hanging)


def print_cells(cells: Sequence[str], console: Console) -> None:
    """Print a row of a table into a file or a pipe: cells between tabs, without padding."""
    print("\t".join(map(plain_line, cells)), file=console.file)


def say(line: str) -> None:
    """Print one line to stderr."""
    print(terminal_safe(line), file=sys.stderr)


def make_room(path: Path) -> None:
    """Make the folder of a file that was typed where there is none. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)


def check_writable(flag: str, path: Path, undone: str) -> None:
    """Make room for a file, and find out whether it can be written, which leaves it as it is.

    `undone`: what was not done, as the end of the sentence. Raises ValueError, which names the flag.
    """
    try:
        make_room(path)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise ValueError(f"{flag} {path}: cannot be written ({error.strerror}); {undone}") from None
