"""Lines of a UTF-8 file of any size, with the place of each, checked as they come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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

    def lines(self) -> Lines:
        """Read from the beginning."""
        return Lines(self.path, self._opened(), 0)

    def lines_from(self, place: int) -> Lines:
        """Read from a place on, in bytes."""
        file = self._opened()
        file.seek(place)
        return Lines(self.path, file, place)

    def _opened(self) -> BinaryIO:
        file = self.path.open("rb")
        if stamp(os.fstat(file.fileno())) != self._stamp:
            file.close()
            raise ValueError(f"{self.path}: the file has changed since it was read")
        return file


def stamp(status: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file is written: its size and its time."""
    return status.st_size, status.st_mtime_ns


class Lines:
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

    def __enter__(self) -> Lines:
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
