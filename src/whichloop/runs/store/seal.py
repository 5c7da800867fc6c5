"""The seal of a run's files, kept in its manifest: it tells of lines that were removed, added or moved, and of files cut short.

A checksum of its own guards each line; the seal guards which lines there are. Files only grow, so a seal holds for their beginnings
ever after. While a process writes, and after it was killed, more may follow what was sealed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from whichloop.protocol.values import counted

from .files import MANIFEST, TRACES, TRIALS, DiskError, RunError, read_manifest_json, sealed_lines, write_manifest_json

MAX_BYTES = 1 << 62

_SIZE = 16
"""Bytes of the checksum of all lines."""
_TRACE_AT = b'"trace_at":'
_REFERENCE = re.compile(rb'"trace_at": ?\[(\d{1,18}), ?(\d{1,18}), ?\d+, ?\d+, ?\d+\]')
_Size = Annotated[int, Field(ge=0, le=MAX_BYTES, strict=True)]


@dataclass(frozen=True, slots=True)
class Seal:
    """What the files of a run were when a process last finished writing them."""

    lines: _Size
    """Number of lines of `trials.jsonl`."""
    checksum: str
    """BLAKE2b of these lines in their order, each without its own checksum."""
    traces: _Size
    """Size of `traces.zst` in bytes, up to the last frame that a record points at. Records hold the checksums of their frames."""
    growing: bool = False
    """Whether a process began to write and has not sealed the files since: more may follow."""


_SEAL = TypeAdapter(Seal)


class LineTally:
    """Counts and hashes the lines of `trials.jsonl`."""

    def __init__(self) -> None:
        self.lines = 0
        self._hash = blake2b(digest_size=_SIZE)

    def add(self, line: bytes) -> None:
        """Take in a line without its checksum."""
        self.lines += 1
        self._hash.update(line)

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()


class SealTally(LineTally):
    """Takes in the lines of `trials.jsonl` one by one, and gives the seal of those so far."""

    def __init__(self) -> None:
        super().__init__()
        self.traces = 0

    def add(self, line: bytes) -> None:
        super().add(line)
        place = _REFERENCE.search(line, max(line.rfind(_TRACE_AT), 0))
        if place is not None:
            self.traces = max(self.traces, int(place[1]) + int(place[2]))

    def seal(self) -> Seal:
        return Seal(self.lines, self.checksum, self.traces)


def read_seal(folder: Path) -> Seal | None:
    """Return the seal of a run; None for one that was never sealed. Raises RunError."""
    if not (folder / MANIFEST).exists():
        return None
    data = read_manifest_json(folder).get("sealed")
    try:
        return None if data is None else _SEAL.validate_python(data)
    except ValidationError:
        raise RunError(f"{folder / MANIFEST}: sealed: not the seal of a run's files") from None


def write_seal(folder: Path, seal: Seal) -> None:
    """Put a seal into the manifest, if there is one. Raises DiskError, and RunError for a damaged manifest."""
    if not (folder / MANIFEST).exists():
        return
    try:
        write_manifest_json(folder, read_manifest_json(folder) | {"sealed": asdict(seal)})
    except OSError as error:
        raise DiskError(f"{folder / MANIFEST}: {error.strerror}; all trials are whole, and the run can be resumed") from None


def tally_of(folder: Path) -> SealTally:
    """Return the tally of all lines of a run. Raises RunError as `run_lines` does."""
    tally = SealTally()
    for _ in run_lines(folder, tally):
        pass
    return tally


def break_seal(folder: Path) -> None:
    """Note in the manifest that the files will grow. Raises DiskError, and RunError where the file of traces is not whole."""
    seal = read_seal(folder)
    if damage := traces_damage(folder, seal):
        raise RunError(f"{folder / TRACES}: {damage}")
    if seal is not None and not seal.growing:
        write_seal(folder, replace(seal, growing=True))


class LinesRead(NamedTuple):
    """The beginning of a file of records that is known already, its seal included if the seal was made then."""

    lines: int = 0
    end: int = 0
    """Offset behind them."""


NOTHING_READ = LinesRead()


def run_lines(folder: Path, tally: LineTally | None = None, before: LinesRead = NOTHING_READ) -> Iterator[bytes]:
    """Yield the lines of `trials.jsonl` without their checksums; none if there is no such file and none was sealed.

    `tally`: an empty one, which takes them in. Without the lines in `before`, which are not looked at again.

    Raises RunError, which names the file, for a damaged line, and where the files are not those that were sealed.
    """
    seal, path, tally = read_seal(folder), folder / TRIALS, tally or LineTally()
    tally.lines = before.lines
    for line in sealed_lines(path, before.end, before.lines):
        tally.add(line)
        yield line
        if seal is not None and tally.lines == seal.lines and tally.checksum != seal.checksum:
            raise RunError(
                f"{path}: {_sealed_lines(seal)}, and others are there, or in another order: the file was damaged or edited"
            )
    if seal is not None and _is_other(tally.lines, seal, folder):
        others = f"{tally.lines} are there" if path.exists() else "the file is missing"
        raise RunError(f"{path}: {_sealed_lines(seal)}, and {others}: the file was damaged or edited")


def _is_other(lines: int, seal: Seal, folder: Path) -> bool:
    """Say whether there are fewer lines than were sealed, or more although no process has written since the seal was read."""
    return lines < seal.lines or (lines > seal.lines and not seal.growing and read_seal(folder) == seal)


def _sealed_lines(seal: Seal) -> str:
    return f"{MANIFEST} tells of {counted(seal.lines, 'line')}"


def traces_damage(folder: Path, seal: Seal | None) -> str:
    """Return what is missing of the file of traces, without which its records can still be read; empty if nothing is."""
    path = folder / TRACES
    size = path.stat().st_size if path.is_file() else 0
    if seal is None or size >= seal.traces:
        return ""
    present = f"{size} are there" if path.exists() else "the file is missing"
    return f"{MANIFEST} tells of {seal.traces} bytes, and {present}: the file was damaged or edited"
