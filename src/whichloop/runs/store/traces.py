"""The traces of a run: frames that are compressed, and read, each by itself.

traces.zst holds frames of Zstandard (RFC 8878), one after the other, so that `zstdcat` prints them all: a line of JSON per trial. A
record's `trace_at` says where its own is: the frame's offset and length in the file, then offset and length in the frame's text.
Last comes the CRC-32 of the frame as it is in the file, which notices every changed bit of it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from io import FileIO
from pathlib import Path
from typing import Any
from zlib import crc32

import zstandard

from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace, TraceError
from whichloop.protocol.digest import ChecksumError, unit
from whichloop.protocol.files import open_regular
from whichloop.protocol.json_text import load_json

from .files import TRACES, RunError, append_whole, own_file, read_manifest_json

FRAME_TRACES = 64
FRAME_BYTES = 256 * 1024
"""Maximum number of bytes of a frame's text; a longer trace gets its own frame."""
MAX_TEXT = 16 * 1024 * 1024
"""Bytes of a frame's text: a longer trace is not kept, and a frame that would expand to more is not opened. Read as JSON it may
take 24 times as much memory."""
MAX_FRAMES_BYTES = 16 * 1024 * 1024
"""Bytes of the frames that a reader holds: trials are read one after the other, in several strands if there are repeats."""
LEVEL = 3
"""Level of compression. Higher ones save a quarter, and take three times as long."""


# --- which are kept ---


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


_NOT_KEPT = {
    "failures": "the run kept traces of failures only (-s traces=failures)",
    "sample": "it is none of those drawn to be kept (-s traces={})",
    "none": "the run kept none (-s traces=none)",
}


def policy_of(folder: Path) -> str:
    """Return `traces` of a run, as it was typed; `all` if unknown."""
    try:
        return str(read_manifest_json(folder)["config"].get("traces", "all"))
    except RunError:
        return "all"


def _is_imported(folder: Path) -> bool:
    try:
        return read_manifest_json(folder).get("imported") is not None
    except RunError:
        return False


def _how_it_ended(record: Record) -> str:
    """Return how a trial ended, as far as its record says: `it is scored 0 (ToolError: db down; stop: crashed)`."""
    score = f" {record.accuracy:g}" if record.status == "scored" else ""
    details = "; ".join(filter(None, [record.reason, f"stop: {record.stop}" if record.stop else ""]))
    return f"it is {record.status}{score}{f' ({details})' if details else ''}"


def why_untraced(folder: Path, record: Record) -> str:
    """Return why a trial has no trace, in words."""
    if _is_imported(folder):
        return f"the imported files hold none; {_how_it_ended(record)}"
    policy = policy_of(folder)
    if record.status == "excluded" or policy == "all":
        return record.reason or "none was recorded"
    return _NOT_KEPT.get(policy.partition("=")[0], "none was recorded").format(policy)


# --- how much they take ---


@dataclass(frozen=True, slots=True)
class TracesSize:
    """How much room the traces of a run take."""

    kept: int
    """Number of trials whose trace can be read."""
    bytes: int
    """Bytes on the disk, including traces of earlier attempts."""
    text_bytes: int
    """Bytes of the traces that can be read, before compression."""

    def to_json(self) -> dict[str, Any]:
        """Return the object under `traces` of `--json`, whose names stay stable."""
        return {"kept": self.kept, "bytes": self.bytes, "text_bytes": self.text_bytes}

    def __str__(self) -> str:
        """Return one line."""
        if not self.kept:
            return "traces: none"
        each, text = _size(self.bytes / self.kept), _size(self.text_bytes / self.kept)
        return f"traces: {each} per kept trial on disk ({text} before compression), {_size(self.bytes)} in all"


def traces_size(folder: Path, trace_count: int, text_bytes: int) -> TracesSize:
    """Return how much room the traces of a run take, of which so many can be read, of so many bytes before compression."""
    path = folder / TRACES
    return TracesSize(trace_count, path.stat().st_size if path.exists() else 0, text_bytes)


def _size(count: float) -> str:
    """Return `3.1 KB` for 3,120 bytes."""
    for unit_name in ("B", "KB", "MB"):
        if round(count, 1) < 1000:
            return f"{count:.0f} {unit_name}" if unit_name == "B" or count >= 99.5 else f"{count:.1f} {unit_name}"
        count /= 1000
    return f"{count:.1f} GB"


# --- writing ---


class TraceWriter:
    """Appends traces to a run's file, which the first one creates. Bytes beyond `end`, which a kill left, are cut off."""

    def __init__(self, path: Path, end: int) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        if end == 0:
            path.unlink(missing_ok=True)  # an empty file is not a frame
        elif path.exists():
            self._file = own_file(path, 0)
            if self._file.seek(0, 2) > end:
                self._file.truncate(end)

    def append(self, traces: Sequence[bytes]) -> list[tuple[int, int, int, int, int]]:
        """Write and fsync traces, each a line; return where each is. Raises RunError, and then nothing was written."""
        if not traces:
            return []
        if self._file is None:
            self._file = own_file(self.path, os.O_CREAT | os.O_TRUNC)
        offset = self._file.seek(0, 2)
        frames, places = [], []
        for lines in _framed(traces):
            frame = self._compressor.compress(b"".join(lines))
            start, checksum = 0, crc32(frame)
            for line in lines:
                places.append((offset, len(frame), start, len(line), checksum))
                start += len(line)
            frames.append(frame)
            offset += len(frame)
        append_whole(self._file, b"".join(frames), self.path)
        return places

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _framed(traces: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield the traces that go into a frame together."""
    lines: list[bytes] = []
    size = 0
    for trace in traces:
        if lines and (len(lines) == FRAME_TRACES or size + len(trace) > FRAME_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(trace)
        size += len(trace)
    yield lines


# --- reading ---


def read_trace(folder: Path, record: Record) -> Trace:
    """Read the trace of one trial. Raises RunError if it has none. `Traces` reads many."""
    return Traces(folder).read(record)


class Traces:
    """Reads the traces of a run, and keeps the text of the frames opened last for neighbouring trials."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._frames: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._frames_bytes = 0
        self._decompressor = zstandard.ZstdDecompressor()

    def read(self, record: Record) -> Trace:
        """Read the trace of one trial. Raises RunError if it has none, or the file, which may come from anywhere, is damaged."""
        if record.trace_at is None:
            raise RunError(f"{self.folder}: trial {record.name} has no trace: {why_untraced(self.folder, record)}")
        path, place = self.folder / TRACES, record.trace_at[0]
        try:
            trace = Trace.from_json(load_json(self._line(path, record.trace_at), finite=True))
        except TraceError as error:
            raise RunError(f"{path}: trial {record.name}: {error}") from None
        except (OSError, ValueError, RecursionError, zstandard.ZstdError) as error:
            raise RunError(f"{path}: no trace of {record.name} at {place}: {' '.join(str(error).split())}") from None
        if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
            raise RunError(f"{path}: the trace at {place} is that of another trial")
        return trace

    def _line(self, path: Path, at: Sequence[int]) -> bytes:
        if len(at) != 5 or not all(type(number) is int and number >= 0 for number in at):
            raise ValueError("this is not a place in a file")
        text, start, length = self._frame(path, at[0], at[1], at[4]), at[2], at[3]
        if start + length > len(text):
            raise ValueError("beyond the end of the frame's text")
        return text[start : start + length]

    def _frame(self, path: Path, offset: int, length: int, checksum: int) -> bytes:
        """Return the text of a frame."""
        key = (offset, length, checksum)
        text = self._frames.pop(key, None)
        if text is None:
            frame = _part(path, offset, length)
            if crc32(frame) != checksum:
                raise ChecksumError
            size = zstandard.frame_content_size(frame)
            if not 0 <= size <= MAX_TEXT:
                raise ValueError(f"the frame does not say that it holds at most {MAX_TEXT >> 20} MB")
            text = self._decompressor.decompress(frame, allow_extra_data=False)
            self._frames_bytes += len(text)
        self._frames[key] = text
        while self._frames_bytes > MAX_FRAMES_BYTES and len(self._frames) > 1:
            _, oldest = self._frames.popitem(last=False)
            self._frames_bytes -= len(oldest)
        return text


def _part(path: Path, offset: int, length: int) -> bytes:
    with open_regular(path) as file:
        if offset + length > file.seek(0, 2):
            raise ValueError("beyond the end of the file")
        file.seek(offset)
        return file.read(length)
