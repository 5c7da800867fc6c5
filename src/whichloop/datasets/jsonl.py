"""Tasks of your own from JSON lines: one object per row, or whole tasks as `whichloop learn plans` writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Unpack

from .importing.columns import Cells, RowOptions, RowTable
from .importing.json_files import json_lines
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite


def jsonl_table(path: Path) -> RowTable:
    """Return JSON lines as a table. Raises OSError for an unreadable file."""
    path.open("rb").close()

    def rows(wanted: Collection[str] | None) -> Iterator[tuple[int, Cells]]:
        for where, number, value in json_lines(path):
            if not isinstance(value, dict):
                raise ValueError(f"{where}: {type(value).__name__} where an object belongs")
            yield number, value

    return RowTable(str(path), path.stem, rows, None, "line", "json")


def load(data: str | Path, tools: OwnTools | None = None, **options: Unpack[RowOptions]) -> Suite:
    """Read the suite of a JSON lines file; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, line and column for what is wrong in it.
    """
    return suite_of(jsonl_table(Path(data)), "jsonl", tools, options)


SUITE = load
