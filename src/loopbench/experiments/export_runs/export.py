"""Writes each kept trial of a run as a file in another tool's format."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopbench.metrics.record import Record
from loopbench.metrics.trace import Trace
from loopbench.protocol.digest import digest
from loopbench.runs.manifest import ArmEntry, read_manifest
from loopbench.runs.store.files import RunError
from loopbench.runs.store.records import read_records
from loopbench.runs.store.traces import Traces

from .atif_documents import atif_of

FORMATS: Mapping[str, Callable[[Trace, Record, ArmEntry], dict[str, Any]]] = {"atif": atif_of}
"""Name of a format → what makes a trial's document."""
MAX_NAME = 120
"""Characters of a file's name; a longer one ends in a digest."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    folder: Path
    trials: int
    untraced: int
    """Trials of which the run keeps no trace; they are left out."""


def export_run(folder: Path, name: str, out: Path) -> Exported:
    """Write the trials of a run into the new folder `out`, a file each. If anything fails, nothing is left.

    Raises RunError for a run that cannot be read or has no trace, ValueError for an unknown format or an existing `out`, OSError.
    """
    if name not in FORMATS:
        raise ValueError(f"--format {name}: there are {', '.join(FORMATS)}")
    if out.exists() or out.is_symlink():
        raise ValueError(f"--out {out}: exists already; take another name")
    records = read_records(folder)
    traced = [record for record in records if record.trace_at is not None]
    if not traced:
        raise RunError(f"{folder}: keeps no trace of any trial, so there is nothing to export")
    out.mkdir(parents=True)
    try:
        for file, document in _documents(folder, traced, FORMATS[name]):
            text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
            (out / file).write_bytes(f"{text}\n".encode("utf-8", "surrogatepass"))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return Exported(out, len(traced), len(records) - len(traced))


def _documents(
    folder: Path, records: list[Record], make: Callable[[Trace, Record, ArmEntry], dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and content of each trial's file."""
    manifest = read_manifest(folder)
    traces = Traces(folder)
    taken: set[str] = set()
    for record in records:
        arm = manifest.arm(record.arm)
        if arm is None:
            raise RunError(f"{folder}: the manifest has no arm {record.arm!r}")
        yield _file_name(record, taken), make(traces.read(record), record, arm)


def _file_name(record: Record, taken: set[str]) -> str:
    """Return a name that any file system takes, and that no other trial has."""
    plain = _UNSAFE.sub("_", f"{record.arm}__{record.task}__{record.repeat}").lstrip(".")
    if len(plain) > MAX_NAME or plain.lower() in taken:
        plain = f"{plain[: MAX_NAME - 17]}-{digest(list(record.key))[:16]}"
    taken.add(plain.lower())
    return f"{plain}.json"
