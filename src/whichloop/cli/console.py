"""Where commands write: results to stdout, messages about them to stderr, and files whose names were typed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from whichloop.text.doc import Doc, Table, to_terminal
from whichloop.text.output import terminal_safe

WIDE = 10_000
"""Width of output to a file or a pipe, where nothing is cut or wrapped."""


def out() -> Console:
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(file=sys.stdout, highlight=False, width=None if has_width else WIDE)


def show(doc: Doc, *, as_json: bool = False, verbose: bool = False) -> None:
    """Print a document to stdout, or the data behind it as JSON. `verbose`: with its details."""
    if as_json:
        print(json.dumps(doc.data, ensure_ascii=True, allow_nan=False))
    else:
        to_terminal(doc, out(), detail=verbose)
    sys.stdout.flush()  # whoever reads it, also through a pipe, need not wait for a page


def say(line: str) -> None:
    """Print one line to stderr."""
    print(terminal_safe(line), file=sys.stderr)


def say_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stderr."""
    doc = Doc(title, (Table("", tuple(columns), tuple(map(tuple, rows))),))
    to_terminal(doc, Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE))


def check_writable(flag: str, path: Path | None, undone: str) -> None:
    """Make room for a file, and find out whether it can be written, which leaves it as it is.

    `undone`: what was not done, as the end of the sentence. Raises ValueError, which names the flag.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise ValueError(f"{flag} {path}: cannot be written ({error.strerror}); {undone}") from None
