"""A file or a folder of another tool: read within bounds, never unpacked to the disk, never run."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import zstandard

from whichloop.protocol.files import read_bounded
from whichloop.protocol.json_text import Json, load_json

from .values import located, mapping, name_of

ZSTD = 93
MAX_BYTES = 1 << 35
MAX_RATIO = 10_000
"""Unpacked to packed, over all members: logs reach some hundreds, a zip bomb reaches millions."""
MAX_NAMES = 200_000
MAX_LEVELS = 12
MAX_MEMBER_BYTES = 1 << 28
"""Maximum size of one file, unpacked: a quarter of a gigabyte is a trial with a very long trace."""
MAX_FILE_BYTES = 1 << 30
"""Maximum size of a file that is read whole; archives are read member by member."""
MAX_FIRST_ROW = 1 << 26
PARQUET = ".parquet"
JSON_LINES = (".jsonl", ".ndjson")
"""Suffixes of the rows that are JSON."""
ROWS = (".csv", ".tsv", *JSON_LINES, PARQUET)
"""Suffixes of files that hold one trial per row, and never one JSON value."""
STANDARD = "trajectory"
"""Name that agents give the file of every trial; the folder's name tells the trials apart."""
ZIP_MAGIC = b"PK\x03\x04"
_BLOCK = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1


class FileTree(Protocol):
    """Files by name, such as those of an archive or a folder."""

    @property
    def names(self) -> Mapping[str, Any]:
        """Names, with `/` between folders, as keys."""

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def read(self, name: str) -> bytes:
        """Return the bytes of one of them."""

    def json(self, name: str) -> Any:
        """Return the JSON value of one of them."""
        raw = self.read(name)
        with located(name):
            return load_json(raw)

    def json_object(self, name: str) -> Mapping[str, Any]:
        data = self.json(name)
        with located(name):
            return mapping(data, "the file")


class ZipArchive(FileTree):
    """The members of a zip file by name, the last one of each."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except Exception as error:  # a damaged one may raise anything
            raise ValueError(f"not a readable zip file: {error}") from None
        self._members = {member.filename: member for member in self._zip.infolist()}
        unpacked = sum(member.file_size for member in self._members.values())
        packed = sum(member.compress_size for member in self._members.values())
        if unpacked > min(MAX_BYTES, MAX_RATIO * max(packed, _BLOCK)):
            raise ValueError(f"its members unpack to {unpacked} bytes, more than is read")

    @property
    def names(self) -> Mapping[str, zipfile.ZipInfo]:
        return self._members

    def read(self, name: str) -> bytes:
        """Unpack one member."""
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise ValueError(f"{name}: encrypted")
        if max(member.file_size, member.compress_size) > MAX_MEMBER_BYTES:
            raise ValueError(f"{name}: more than {MAX_MEMBER_BYTES} bytes")
        try:
            with self._unpacking(member) as file:
                data: bytes = file.read(member.file_size + 1)
        except Exception as error:  # a damaged one may raise anything
            raise ValueError(f"{name}: cannot be unpacked: {error}") from None
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise ValueError(f"{name}: damaged")
        return data

    def _unpacking(self, member: zipfile.ZipInfo) -> Any:
        """Open the member as a file; how much is read of it bounds what it unpacks to."""
        if member.compress_type != ZSTD:
            return self._zip.open(member)
        self._file.seek(member.header_offset)  # in its own header names and extras may be longer than in the directory
        magic, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if magic != ZIP_MAGIC:
            raise zipfile.BadZipFile("there is no member where the directory says")
        self._file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
        return zstandard.ZstdDecompressor().stream_reader(self._file.read(member.compress_size), read_across_frames=True)


class FolderTree(FileTree):
    """The regular files below a folder. Raises ValueError if there are too many, and OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digests_read: dict[str, str] = {}
        """Name → sha256 of each file that was read."""

    @cached_property
    def names(self) -> Mapping[str, None]:
        names = list(islice(self._walk(self.path, ""), MAX_NAMES + 1))
        if len(names) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES} files")
        return dict.fromkeys(sorted(names))

    def _walk(self, folder: Path, prefix: str) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False) and name.count("/") < MAX_LEVELS:
                    yield from self._walk(folder / entry.name, f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    yield name

    def read(self, name: str) -> bytes:
        if name not in self:
            raise ValueError(f"{name}: not there")
        try:
            data = read_bounded(self.path / name, MAX_MEMBER_BYTES)
        except OSError as error:
            raise ValueError(f"{name}: {error.strerror}") from None
        self._digests_read[name] = hashlib.sha256(data).hexdigest()
        return data

    @property
    def sha256(self) -> str:
        """sha256 over the names and contents of the files that were read, whatever else is in the folder."""
        lines = (f"{digest} {name}\n" for name, digest in sorted(self._digests_read.items()))
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


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
    elif path.is_dir():
        yield ForeignFile(path, BytesIO(), FolderTree(path))
    elif path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    else:
        with path.open("rb") as stream:
            yield ForeignFile(path, stream)


class ForeignFile:
    """One open file or folder, as the formats see it: its name, its bytes, its JSON, or the files in it."""

    def __init__(self, path: Path, stream: IO[bytes], folder: FolderTree | None = None, *, suffix: str | None = None) -> None:
        self.path = path
        self.folder = folder
        """The files of a folder; None for a file."""
        self._named_suffix = path.suffix.lower() if suffix is None else suffix
        self._stream = stream

    @cached_property
    def suffix(self) -> str:
        """The ending of a file's name, in small letters; `.jsonl` for JSON lines under any other name, empty for a folder."""
        if self.folder:
            return ""
        return JSON_LINES[0] if self._named_suffix not in ROWS and self.holds_lines else self._named_suffix

    @cached_property
    def holds_lines(self) -> bool:
        """Whether it is called as JSON lines, or its first line is a whole JSON object and the next one begins another."""
        if self._named_suffix in JSON_LINES or self.folder:
            return not self.folder
        try:
            if not isinstance(load_json(self._rewound().readline(MAX_FIRST_ROW)), dict):
                return False
        except (ValueError, RecursionError):
            return False
        second = next((line for line in iter(lambda: self._stream.readline(MAX_FIRST_ROW), b"") if line.strip()), b"")
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
        """Open the file as a zip archive."""
        return ZipArchive(self._rewound())

    def content(self) -> bytes:
        """Return all bytes."""
        if self.folder:
            raise ValueError("a folder, not a file")
        raw = self._rewound().read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
        return raw

    @cached_property
    def json_value(self) -> object:
        """The file's JSON value."""
        with located("not JSON"):
            return load_json(self.content())

    @property
    def json_object(self) -> Mapping[str, Json]:
        """The file's JSON object."""
        data = self.json_value
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        return data

    @cached_property
    def first(self) -> Any:
        """The first document, by which a format is recognized; None if there is none that can be read."""
        try:
            if self.tree is None and self.holds_lines:
                return load_json(self._rewound().readline(MAX_FIRST_ROW))
            return next(documents(self), ("", None))[1]
        except (ValueError, RecursionError):
            return None

    @property
    def top_level(self) -> Mapping[str, Json]:
        """The JSON object of a file that holds one, of a list its first item; empty if the file is anything else."""
        data = None if self.tree is not None or self.suffix in ROWS else self.first
        first = data[0] if isinstance(data, list) and data else data
        return first if isinstance(first, dict) else {}


# --- documents ---


def documents(file: ForeignFile) -> Iterator[tuple[str, Any]]:
    """Yield place and content of each document; the place of the only one is empty."""
    if file.tree is not None:
        for name in file.tree.names:
            if name.endswith(JSON_LINES):
                yield from _lines(file.tree.read(name), f"{name}, ")
            elif name.endswith(".json"):
                yield name, file.tree.json(name)
    elif file.holds_lines:
        yield from _lines(file.content(), "")
    else:
        yield "", file.json_value


def _lines(raw: bytes, before: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            with located(f"{before}line {number}"):
                data = load_json(line)
            yield f"{before}line {number}", data


def each_item(file: ForeignFile, key: str, what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and content of the items of all documents: of a list, of the list under `key`, or the document itself."""
    for where, data in documents(file):
        for number, item in enumerate(items_of(data, key), 1):
            place = f"{where}, {what} {number}" if where else f"{what} {number}"
            with located(place):
                found = mapping(item, f"the {what}")
            yield place, found


def items_of(data: object, key: str) -> list[Any]:
    """Return the items of a document: a list, the list under `key`, or the one that it is."""
    listed = data.get(key) if isinstance(data, Mapping) and isinstance(data.get(key), list) else data
    return listed if isinstance(listed, list) else [listed]


def holds(items: Sequence[Any], keys: Set[str]) -> bool:
    """Tell whether the first item is an object with these keys."""
    return bool(items) and isinstance(items[0], Mapping) and items[0].keys() >= keys


def task_of(file: ForeignFile, where: str) -> str:
    """Return a task's name from the document's: without its ending, or, where all are called the same, from its folder's."""
    path = PurePosixPath(where or f"{file.path.resolve().parent.name}/{file.path.name}")
    is_standard = path.stem == STANDARD and path.parent.name
    bare = path.with_suffix("") if where else PurePosixPath(path.stem)
    return name_of((path.parent if is_standard else bare).as_posix(), "the file's name")
