"""A file or a folder of another tool: read within bounds, never unpacked to the disk, never run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO

from whichloop.protocol.json_text import DuplicateKeyError, Json, LongNumberError, load_json

from .folder_tree import FileTree, FolderTree
from .zip_file import ZipArchive

MAX_FILE_BYTES = 1 << 30
"""Maximum size of a file that is read whole; archives are read member by member."""
PARQUET = ".parquet"
ROWS = (".csv", ".tsv", ".jsonl", ".ndjson", PARQUET)
"""Suffixes of files that hold one trial per row, and never one JSON value."""
JSON_LINES = (".jsonl", ".ndjson")
"""Suffixes of the rows that are JSON."""
MAX_FIRST_ROW = 1 << 26
"""Maximum size of the first line that a format is recognized by."""
_PLACE = re.compile(r":? line 1 column (\d+) \(char \d+\)")
"""Where `json` says that a value of one line is wrong."""
ZIP_MAGIC = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows of a table that a program hands over in the place of a file."""

    name: str
    """What stands for the file in messages, and for the arm where no column names it."""
    content: bytes
    """The rows as a JSON array of objects."""

    def __str__(self) -> str:
        return self.name


@contextmanager
def open_file(path: Path | GivenRows) -> Iterator[ForeignFile]:
    """Open a user's file or folder, or rows. Raises ValueError for a pipe or a device, and OSError."""
    if isinstance(path, GivenRows):
        yield ForeignFile(Path(path.name), BytesIO(path.content), suffix=".json")
        return
    if path.is_dir():
        yield ForeignFile(path, BytesIO(), FolderTree(path))
        return
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as stream:
        yield ForeignFile(path, stream)


def parse_json(text: bytes | str) -> object:
    """Parse one JSON value. Raises ValueError, also for a value that is nested too deep and for a duplicate key."""
    return load_json(text)


def parse_line(text: bytes | str) -> object:
    """Parse the JSON value of a line, whose number the caller names. Raises ValueError, which tells the column only."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(_PLACE.sub(r" at column \1", str(error))) from None


class ForeignFile:
    """One open file or folder, as the formats see it: its name, its bytes, its JSON, or the files in it."""

    def __init__(self, path: Path, stream: IO[bytes], folder: FolderTree | None = None, *, suffix: str | None = None) -> None:
        self.path = path
        self._named_suffix = path.suffix.lower() if suffix is None else suffix
        self.folder = folder
        """The files of a folder; None for a file."""
        self._stream = stream

    @cached_property
    def suffix(self) -> str:
        """The ending of a file's name, in small letters; `.jsonl` for JSON lines under any other name, empty for a folder."""
        if self.folder:
            return ""
        return JSON_LINES[0] if self._named_suffix not in ROWS and self._holds_lines() else self._named_suffix

    def _holds_lines(self) -> bool:
        """Tell whether the first line is a whole JSON object and the next one that is not blank begins another."""
        stream = self._rewound()
        try:
            if not isinstance(parse_json(stream.readline(MAX_FIRST_ROW)), dict):
                return False
        except (ValueError, RecursionError):
            return False
        second = next((line for line in iter(lambda: stream.readline(MAX_FIRST_ROW), b"") if line.strip()), b"")
        return second.lstrip().startswith(b"{")

    def _rewound(self) -> IO[bytes]:
        self._stream.seek(0)
        return self._stream

    @property
    def sha256(self) -> str:
        """sha256 of a file, or of what was read of a folder."""
        return self.folder.sha256 if self.folder else hashlib.file_digest(self._rewound(), "sha256").hexdigest()  # type: ignore[arg-type]  # a file in binary mode has readinto

    @cached_property
    def tree(self) -> FileTree | None:
        """The files of a folder or a zip archive; None for any other file, and for an archive that cannot be read."""
        try:
            return self.folder or (self.archive() if self.is_zip else None)
        except ValueError:
            return None

    @cached_property
    def is_zip(self) -> bool:
        return self._rewound().read(len(ZIP_MAGIC)) == ZIP_MAGIC

    def archive(self) -> ZipArchive:
        """Open the file as a zip archive. Raises ValueError if it is not a readable one."""
        return ZipArchive(self._rewound())

    def content(self) -> bytes:
        """Return all bytes. Raises ValueError for a folder, and if there are more than MAX_FILE_BYTES."""
        if self.folder:
            raise ValueError("a folder, not a file")
        raw = self._rewound().read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
        return raw

    @cached_property
    def json_value(self) -> object:
        """The file's JSON value. Raises ValueError if there is none."""
        raw = self.content()
        try:
            return parse_json(raw)
        except (DuplicateKeyError, LongNumberError):
            raise
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None

    @property
    def json_object(self) -> Mapping[str, Json]:
        """The file's JSON object. Raises ValueError if there is none."""
        data = self.json_value
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        return data

    @cached_property
    def first_row(self) -> Mapping[str, Json]:
        """The object in the first line of JSON lines; empty if the file is anything else."""
        if self.suffix not in JSON_LINES:
            return {}
        line = self._rewound().readline(MAX_FIRST_ROW)
        try:
            data = parse_json(line)
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}

    @cached_property
    def top_level(self) -> Mapping[str, Json]:
        """The JSON object for recognizing a format, of a list its first item; empty if the file is anything else.

        Raises DuplicateKeyError.
        """
        if self.folder or self.is_zip or self.suffix in ROWS:
            return {}
        try:
            data = self.json_value
        except DuplicateKeyError:
            raise
        except ValueError:
            return {}
        first = data[0] if isinstance(data, list) and data else data
        return first if isinstance(first, dict) else {}
