"""Tasks of your own from JSON lines: one object per row, or whole tasks as `whichloop learn plans` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

from whichloop.protocol.json_text import Json

from .importing.columns import Cells, RowOptions, RowTable
from .importing.json_files import BrokenRow, NotJson, TextFile, json_value
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite


class JsonLines(RowTable):
    """JSON lines as a table; blank lines are passed over."""

    unit = "line"
    cells = "json"

    def __init__(self, path: Path) -> None:
        """Raises OSError for an unreadable file."""
        self.source = str(path)
        self.name = path.stem
        self._file = TextFile(path)

    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (byte, line, object) of each row. Raises ValueError."""
        with self._file.lines() as lines:
            place = 0
            for text in lines:
                lines.record = 0
                if not text.isspace():
                    yield place, lines.number, self._object(text, lines.number)
                place = lines.place

    def row(self, place: int) -> Cells:
        """Read one row. Raises BrokenRow if the file has changed."""
        with self._file.lines_from(place) as lines:
            return self._object(next(lines), None)

    def _object(self, text: str, number: int | None) -> dict[str, Json]:
        """Read the object of a line. `number`: of the line; None where only its byte is known. Raises BrokenRow."""
        place = self.source if number is None else f"{self.source}, line {number}"
        try:
            value = json_value(text.rstrip("\r\n"))
        except NotJson as error:
            column = place if number is None else f"{self.source}:{number}:{error.column}"  # as editors and compilers write it
            raise BrokenRow(column, f"not JSON ({error.reason}); each line is one object") from None
        except ValueError as error:
            raise BrokenRow(place, f"{error}; each line is one object") from None
        if not isinstance(value, dict):
            raise BrokenRow(place, f"{type(value).__name__} where an object belongs")
        return value


def load(data: str | Path, tools: OwnTools | None = None, **options: Unpack[RowOptions]) -> Suite:
    """Read the suite of a JSON lines file; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, line and column for what is wrong in it.
    """
    return suite_of(JsonLines(Path(data)), "jsonl", tools, options)


SUITE = load
