"""Reading lines of text, JSON and published JSON files: what is wrong is a ValueError of one line with file, line and field."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from whichloop.protocol.json_text import DuplicateKeyError, LongNumberError, load_json

MAX_BYTES = 10_000_000
"""Longest line; a longer one is hardly meant to be a question."""
BOM = b"\xef\xbb\xbf"


class TextFile:
    """A file that must stay as it is while tasks are read from it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError for an unreadable file."""
        self.path = path
        with path.open("rb") as file:
            self._stamp = stamp(os.fstat(file.fileno()))

    def lines(self) -> JsonLinesFile:
        """Read from the beginning."""
        return JsonLinesFile(self.path, self._opened(), 0)

    def lines_from(self, place: int) -> JsonLinesFile:
        """Read from a place on, in bytes."""
        file = self._opened()
        file.seek(place)
        return JsonLinesFile(self.path, file, place)

    def _opened(self) -> BinaryIO:
        file = self.path.open("rb")
        if stamp(os.fstat(file.fileno())) != self._stamp:
            file.close()
            raise ValueError(f"{self.path}: the file has changed since it was read")
        return file


def stamp(status: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file is written: its size and its time."""
    return status.st_size, status.st_mtime_ns


class JsonLinesFile:
    """Decoded lines, ends included, each of at most MAX_BYTES; to be used as a context, which closes the file."""

    def __init__(self, path: Path, file: BinaryIO, place: int) -> None:
        self.path = path
        self.place = place
        """Where the next line begins, in bytes."""
        self.number = 0
        """Number of the line that was read last, from 1 on (counted from where reading began)."""
        self.record = 0
        """Bytes since this was last set to 0: one record must not be longer than a line may be."""
        self._file = file

    def __enter__(self) -> JsonLinesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Read a line. Raises ValueError that names file and line, for one that is too long or not UTF-8."""
        raw = self._file.readline(MAX_BYTES + 1)
        if not raw:
            raise StopIteration
        self.number += 1
        self.record += len(raw)
        if self.record > MAX_BYTES:
            what = "the line" if self.record == len(raw) else "the record, over several lines (is a quote left open?),"
            raise ValueError(f"{self.at()}: {what} is longer than {MAX_BYTES:,} bytes")
        begins = self.place == 0
        self.place += len(raw)
        if b"\0" in raw:
            raise ValueError(f"{self.at()}: there is a NUL byte; this is not text in UTF-8")
        try:
            return (raw.removeprefix(BOM) if begins else raw).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.at()}: the text is not UTF-8 ({error.reason} at byte {error.start + 1})") from None

    def at(self) -> str:
        """Return where reading is, in words."""
        return f"{self.path}, line {self.number}"


MAX_FILE_BYTES = 50_000_000
"""Largest file whose tasks are all held in memory; ten times the largest one that is published."""
MAX_DEPTH = 100
"""Deepest nesting of JSON: not every library takes what is deeper."""


class JsonRow(BaseModel):
    """The shape of a published row or part of one; fields that it does not name are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


R = TypeVar("R", bound=JsonRow)


def json_lines(path: Path) -> Iterator[tuple[str, int, Any]]:
    """Read `FILE, line N`, N, and the value of each line; blank lines are passed over. Raises ValueError and OSError."""
    with TextFile(path).lines() as lines:
        for text in lines:
            if lines.place > MAX_FILE_BYTES:
                raise ValueError(f"{lines.at()}: {_TOO_LONG}; take the first rows: limit")
            lines.record = 0
            if not text.isspace():
                yield lines.at(), lines.number, _value(text, lines.at())


def json_file(path: Path) -> Any:
    """Read the one value of a file. Raises ValueError and OSError."""
    return _value(text_file(path), str(path))


def text_file(path: Path) -> str:
    """Read a file's text in UTF-8, with or without byte order mark. Raises ValueError and OSError."""
    with path.open("rb") as file:
        raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"{path}: {_TOO_LONG}")
    try:
        return raw.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: the text is not UTF-8 ({error.reason})") from None


_TOO_LONG = f"the file is longer than {MAX_FILE_BYTES:,} bytes"


def checked(kind: type[R], value: Any, where: str) -> R:
    """Return the value as a row of its kind. Raises ValueError that names the first field that is missing or wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        problem = "an object belongs here" if first["type"] == "model_type" else first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {f'field {field!r}: ' if field else ''}{problem}") from None


def check_limit(importer: str, limit: int | None) -> None:
    """Raise ValueError unless a limit of rows is None or a whole number from 1 on."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ValueError(f"{importer}: limit is {limit!r}, and must be a whole number from 1 on")


class BrokenRow(ValueError):
    """A row of a file cannot be read: its place, and what is wrong with it."""

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}")


class NotJson(ValueError):
    """A text is not JSON."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        """`line` and `column`: where in the text, from 1 on."""
        self.reason = reason
        self.column = column
        of = f" of its line {line}" if line > 1 else ""  # a bare line would be taken for the file's
        super().__init__(f"not JSON ({reason} at character {column}{of})")


def json_value(text: str) -> Any:
    """Read strict JSON of bounded depth, whose text UTF-8 can encode. Raises ValueError, which says why and where in the text."""
    try:
        value = load_json(text, finite=True)
    except (DuplicateKeyError, LongNumberError):
        raise
    except json.JSONDecodeError as error:
        raise NotJson(error.msg.removesuffix(" at"), error.lineno, error.colno) from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if "\\ud" in text or "\\uD" in text:
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                try:
                    item.encode()
                except UnicodeEncodeError:
                    raise ValueError("it holds half of a surrogate pair, which is not text") from None
            else:
                waiting.extend(_inside(item))
                waiting.extend(item if isinstance(item, Mapping) else ())
    return value


def _value(text: str, where: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _check_depth(value: Any) -> None:
    """Raise ValueError for a value nested deeper than MAX_DEPTH."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()
