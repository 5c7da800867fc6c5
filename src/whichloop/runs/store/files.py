"""The files of a run directory: written whole or not at all, even if the writing process dies; its lock; which traces it keeps."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from whichloop.metrics.record import Record
from whichloop.protocol.files import check_regular, each_line, naming, read_bounded, read_settings, readable
from whichloop.protocol.json_text import CHECKSUM, load_json, seal, unit, unseal

MANIFEST = "manifest.json"


class RunError(ValueError):
    """A run directory cannot be read or written as requested; one line that names it."""


class CutShort(RunError):
    """A run has ended early, as where the disk is full; its finished trials are kept, and it can be resumed."""


def write_manifest_json(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write a manifest, whole or not at all."""
    write_document(folder / MANIFEST, manifest)


def write_document(path: Path, data: Mapping[str, object]) -> None:
    """Write a JSON object with its checksum, whole or not at all. Raises OSError."""
    text = json.dumps({name: value for name, value in data.items() if name != CHECKSUM}, indent=2, allow_nan=False)
    write_whole(path, readable(seal(f"{text}\n".encode("ascii")), path, settings=path.name == MANIFEST))


def read_document(path: Path) -> Any:
    """Read a JSON object that `write_document` wrote. Raises OSError, and ValueError for anything else."""
    return _document(read_bounded(path))


def _document(text: bytes) -> Any:
    return load_json(unseal(text).decode("utf-8"), finite=True)


PAGE = "report.html"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all. Raises OSError."""
    scratch = path.with_name(f"{path.name}.part")
    with naming(path):
        scratch.unlink(missing_ok=True)  # a link itself is replaced, and its target stays as it is
        try:
            with BufferedWriter(own_file(scratch, os.O_CREAT | os.O_EXCL)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)


def read_manifest_json(folder: Path) -> dict[str, Any]:
    """Read a manifest of any kind. Raises RunError where there is none, or for what is not an object with a configuration."""
    path = folder / MANIFEST
    try:
        manifest = _document(read_settings(path))
    except FileNotFoundError:
        raise RunError(f"{folder}: not a run directory (it has no {MANIFEST})") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("config"), dict):
        raise RunError(f"{path}: not the manifest of a run")
    return manifest


def arms_in(manifest: Mapping[str, Any], typed: str) -> list[str]:
    """Return the names of the arms that a user may mean by the name of one, or of its loop; of a damaged manifest none."""
    arms = manifest.get("arms")
    names = [str(each.get("arm")) for each in arms if isinstance(each, dict)] if isinstance(arms, list) else []
    named = [name for name in names if name == typed or name.startswith(f"{typed}/")]
    return named or [name for name in names if name.startswith(f"{typed}(")]  # a loop with options, by its name alone


def own_file(path: Path, flags: int) -> FileIO:
    """Open a file of a run directory to write to it, `flags` as of `os.open`.

    A directory may come from anywhere: a symbolic link in it, which may lead anywhere, raises RunError.
    """
    try:
        file = FileIO(os.open(path, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666), "r+b")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RunError(f"{path}: a symbolic link; nothing is written through one") from None
    try:
        check_regular(file.fileno(), path)
    except OSError as error:
        file.close()
        raise RunError(f"{path}: {error.strerror}") from None
    return file


def sealed_lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a file without their checksums; none if the file does not exist.

    A torn last line, left by a kill, is skipped. Raises RunError, which names file and line, for one that was damaged.
    """
    try:
        for number, line in enumerate(each_line(path), 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield unseal(line)
            except ValueError as error:
                raise RunError(f"{path}:{number}: {error}") from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None


LOCK = "run.lock"


def locked(folder: Path) -> FileIO:
    """Keep other processes from writing to a run directory until what is returned is closed. Raises RunError if one does."""
    lock = own_file(folder / LOCK, os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(f"{folder}: another process is writing to this run") from None
    return lock


MAX_TEXT = 16 * 1024 * 1024
"""Bytes of a trace: a longer one is not kept, and one that would expand to more is not opened. Read as JSON it may take 24 times as
much memory."""


@dataclass(frozen=True, slots=True)
class TracePolicy:
    """Which trials' traces a run keeps: `all`, `failures`, `none`, or `sample`, those of some cells of the schedule."""

    which: str = "all"
    cells: frozenset[tuple[str, int]] = frozenset()
    """Task and repeat of each cell in the sample."""

    @classmethod
    def of(cls, which: str, cells: Iterable[tuple[str, int]], seed: int) -> TracePolicy:
        """Return the policy that `which` names. A hash of seed, task and repeat draws a sample, equal for all arms."""
        kind, _, size = which.partition("=")
        if kind != "sample":
            return cls(kind)
        return cls(kind, frozenset(nsmallest(int(size), cells, key=lambda cell: (unit("traces", seed, *cell), cell))))

    def keeps(self, record: Record) -> bool:
        """Say whether a finished trial's trace is to be written."""
        if self.which == "failures":
            return record.status != "scored" or not record.is_solved
        return self.which == "all" or (record.task, record.repeat) in self.cells


def why_untraced(folder: Path, record: Record) -> str:
    """Return why a trial has no trace: what the run kept, how the trial ended, and why. Raises RunError."""
    manifest = read_manifest_json(folder)
    kept = f"traces={manifest['config'].get('traces', 'all')}" if manifest.get("imported") is None else "an import"
    score = f" {record.accuracy:g}" if record.status == "scored" else ""
    return "; ".join(filter(None, [kept, f"{record.status}{score}", record.stop, record.reason]))
