"""Files of other tools into one run directory: tell the format, read, join, write."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, get_args

from loopbench.runs.folders import RUNS, new_folder
from loopbench.runs.manifest import write_manifest
from loopbench.runs.store.records import TRIALS

from .foreign_trials import ForeignLog, Format
from .inspect_log import read_inspect_archive, read_inspect_json
from .joining import ImportRequest, join, named
from .pydantic_evals import read_report
from .table import read_table
from .values import located
from .zip_file import opened

FORMATS: tuple[Format, ...] = get_args(Format)
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
MAX_FILE_BYTES = 1 << 30
"""Of a file that is read whole: all but archives."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A run directory that was made."""

    folder: Path
    notes: tuple[str, ...]
    """For the one who imports; not in the directory."""


def import_files(paths: Sequence[Path], wanted: ImportRequest, folder: Path | None = None, runs: Path = RUNS) -> Imported:
    """Write a run directory, `folder` or a new one below `runs`. Where anything is wrong, none is left behind.

    Raises ValueError in one line that names the file and the place in it, or a `folder` that is there already, and OSError.
    """
    if folder is not None and (folder.exists() or folder.is_symlink()):
        raise ValueError(f"{folder}: is there already; take another --name")
    logs = named([read_file(path, wanted) for path in paths], wanted.arms)
    joined = join(logs, wanted)
    if folder is None:
        folder = new_folder(runs, joined.manifest.suite.name)
    else:
        folder.mkdir(parents=True)
    try:
        with (folder / TRIALS).open("x", encoding="ascii") as file:
            file.writelines(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in joined.records)
        write_manifest(folder, joined.manifest)  # last: a directory without one is no run
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Imported(folder, tuple(f"{log.path}: {note}" for log in logs for note in log.notes))


# --- one file ---


def read_file(path: Path, wanted: ImportRequest) -> ForeignLog:
    """Read one file, whose format it tells itself unless `wanted` does. Raises ValueError and OSError."""
    with located(str(path)):
        try:
            with opened(path) as file:
                return _read(file, path, wanted)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except MemoryError:
            raise ValueError("too large for this machine's memory") from None


def _read(file: BufferedReader, path: Path, wanted: ImportRequest) -> ForeignLog:
    is_archive = file.read(4).startswith(b"PK\x03\x04") or path.suffix.lower() == ".eval"
    file.seek(0)
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    if is_archive and wanted.format in (None, "inspect"):
        return read_inspect_archive(file, path, sha256, wanted.reading)
    raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
    told = wanted.format or ("csv" if path.suffix.lower() in TABLES else None)
    if told == "csv":
        return read_table(raw, path, sha256, wanted.reading)
    data = _json(raw, told)
    if told == "inspect" or (told is None and isinstance(data.get("eval"), dict)):
        return read_inspect_json(data, path, sha256, wanted.reading)
    if told == "pydantic-evals" or (told is None and isinstance(data.get("cases"), list)):
        return read_report(data, path, sha256, wanted.reading)
    raise ValueError(f"neither a log of Inspect nor a report of pydantic-evals; say what it is: --format {'|'.join(FORMATS)}")


def _json(raw: bytes, told: Format | None) -> Mapping[str, Any]:
    try:
        data = json.loads(raw)
    except ValueError as error:
        hint = "" if told else f"; say what it is: --format {'|'.join(FORMATS)}"
        raise ValueError(f"no JSON: {error}{hint}") from None
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return data
