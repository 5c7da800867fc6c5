"""What a run has kept, read as JSON, and put back by a test that changes it as though its writer had written that."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.runs.store.files import MANIFEST, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import TRIALS, TrialFile, each_record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Every record of a run as JSON, in the order in which they were written."""
    return [record.to_json() for record in each_record(folder)]


def trace_text(folder: Path, number: int) -> bytes:
    with closing(sqlite3.connect(folder / TRIALS)) as db:
        (frame,) = db.execute("SELECT trace FROM traces WHERE number = ?", (number,)).fetchone()
    return zstandard.ZstdDecompressor().decompress(frame)


def put(folder: Path, records: Iterable[Record | Mapping[str, Any]], traces: Iterable[bytes] | None = None) -> None:
    """Let a run consist of these records, with the traces that they have, or with others."""
    made = [record if isinstance(record, Record) else Record.from_json(record) for record in records]
    texts = [trace_text(folder, each.trace_at) if each.trace_at else b"" for each in made] if traces is None else list(traces)
    unfinished(folder)
    (folder / TRIALS).unlink(missing_ok=True)
    with closing(TrialFile(folder)) as file:
        file.add((replace(record, trace_at=0), text) for record, text in zip(made, texts, strict=True))


def unfinished(folder: Path) -> None:
    """Let a run be as though its only session had been killed."""
    if (folder / MANIFEST).exists():
        manifest = read_manifest_json(folder)
        manifest.pop("rows", None)
        write_manifest_json(folder, manifest)


def execute(folder: Path, statement: str, *values: object) -> None:
    """Change the file as anybody may."""
    with closing(sqlite3.connect(folder / TRIALS)) as db:
        db.execute(statement, values)
        db.commit()


def content(path: Path) -> bytes:
    """What a file holds; traces as they read."""
    data = path.read_bytes()
    if path.name != TRIALS:
        return data
    with closing(sqlite3.connect(path)) as db:
        frames = [frame for (frame,) in db.execute("SELECT trace FROM traces")]
    return data + b"".join(map(zstandard.ZstdDecompressor().decompress, frames))
