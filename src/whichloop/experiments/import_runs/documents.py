"""The JSON documents of a file, of its lines, or of the files in a folder or an archive, each with a name that tells it apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

from .foreign_file import JSON_LINES, ForeignFile, parse_json, parse_line
from .values import located, name_of

STANDARD = "trajectory"
"""Name that agents give the file of every trial; the folder's name tells the trials apart."""


def documents(file: ForeignFile) -> Iterator[tuple[str, Any]]:
    """Yield name and content of each document. Raises ValueError that names the one that is not JSON."""
    if file.tree is None:
        if file.suffix in JSON_LINES:
            yield from _lines(file.content(), "")
        else:
            yield _document_name(file.path), file.json_value
        return
    for name in file.tree.names:
        if name.endswith(JSON_LINES):
            yield from _lines(file.tree.read(name), f"{name}, ")
        elif name.endswith(".json"):
            raw = file.tree.read(name)
            with located(name):
                data = parse_json(raw)
            yield name, data


@contextmanager
def in_document(file: ForeignFile, name: str, part: str = "") -> Iterator[None]:
    """Prefix what is wrong in a document with the part of it and, where the file holds several documents, its name."""
    is_one = file.tree is None and file.suffix not in JSON_LINES
    where = ", ".join(filter(None, ["" if is_one else name, part]))
    with located(where) if where else nullcontext():
        yield


def _document_name(path: Path) -> str:
    """Return a single file's name; of one that is called like all others, below its folder's, as if that had been imported."""
    resolved = path.resolve()
    return f"{resolved.parent.name}/{path.name}" if path.stem == STANDARD and resolved.parent.name else path.name


def _lines(raw: bytes, before: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            with located(f"{before}line {number}"):
                data = parse_line(line)
            yield f"{before}line {number}", data


def has(file: ForeignFile, is_one: Callable[[Any], bool]) -> bool:
    """Tell whether the first document of a file is one of a format; it never raises."""
    try:
        if file.tree is None and file.suffix in JSON_LINES:
            return is_one(file.first_row)
        return is_one(next(documents(file), ("", None))[1])
    except (ValueError, RecursionError):
        return False


def each_item(data: object, key: str) -> list[Any]:
    """Return the items of a document: a list, the list under `key`, or the one that it is."""
    listed = data.get(key) if isinstance(data, Mapping) and isinstance(data.get(key), list) else data
    return listed if isinstance(listed, list) else [listed]


def task_of(name: str) -> str:
    """Return a task's name from the document's: without its ending, or, where all are called the same, from its folder's."""
    path = PurePosixPath(name)
    text = path.parent.as_posix() if path.stem == STANDARD and path.parent.name else path.with_suffix("").as_posix()
    return name_of(text, "the file's name")


def unscored(reason: str, task: object) -> str:
    """Return why a trial has no score. `task`: what was named as its task; None: its file's name stands for it."""
    return reason if task is not None else f"{reason}; and each file is a task of its own without --map task=PLACE"
