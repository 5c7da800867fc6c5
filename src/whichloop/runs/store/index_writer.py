"""Writes the index of a run along with its journal."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import orjson
import zstandard

from whichloop.protocol.files import each_line
from whichloop.protocol.json_text import load_json

from .files import TRIALS, RunError, append_whole, own_file
from .index import BLOCK_ROWS, INDEX, LENGTHS, MAGIC, MAX_KINDS, ROW, BlockHeader, blocks_of, prefix_hash
from .record_lines import UNTRACED, parted

_NOTHING = BlockHeader(begin=0, end=0, first=0, lines=0, digest="", checksum="", base=0, repeats=(0, 0))
_LEVEL = 3
"""Level of compression."""


class IndexWriter:
    """Takes in the lines of a run as they are written. What fails here costs the index, never the run."""

    def __init__(self, folder: Path, checksum: str) -> None:
        """`checksum`: of all lines that there are, without their own, as a seal has it."""
        self._folder = folder
        self._is_off = False
        self._last = _NOTHING
        """Of the block written last."""
        self._hash = blake2b(digest_size=16)
        self._end = self._lines = 0
        self._codes: dict[bytes, int] = {}
        self._base = 0
        self._kinds: list[bytes] = []
        """Whole lines of those that no block names."""
        self._rows: list[tuple[float, ...]] = []
        with self._giving_up():
            self._go_on(checksum)

    def add(self, line: bytes) -> None:
        """Take in a line that is on the disk, with its checksum."""
        if self._is_off:
            return
        with self._giving_up():
            self._add(line)

    def flush(self, checksum: str, *, whole_blocks: bool = True) -> None:
        """Write a block of what was taken in; with `whole_blocks` if that is enough for one, else if there is an index."""
        is_due = len(self._rows) >= BLOCK_ROWS if whole_blocks else self._rows and self._last.end
        if is_due and not self._is_off:
            with self._giving_up():
                self._write(checksum)

    def _go_on(self, checksum: str) -> None:
        """Take in the lines that the index lacks, after a kill or of an older run. One that is of another file is begun anew."""
        path, index = self._folder / TRIALS, self._folder / INDEX
        sizes = [LENGTHS.size + sum(map(len, block.parts)) for block in blocks_of(self._folder)]
        *_, last = (_NOTHING, *(block.header for block in blocks_of(self._folder)))
        hasher = prefix_hash(path, last.end)
        if last.end <= path.stat().st_size and hasher.hexdigest() == last.digest:
            self._last, self._hash = last, hasher
            os.truncate(index, sum(sizes))  # a block that a kill has torn
        else:
            index.unlink(missing_ok=True)
        self._end, self._lines = self._last.end, self._last.lines
        for line in each_line(path, self._end):
            self._add(line)
            if len(self._rows) >= BLOCK_ROWS:
                self._write("")
        if self._last.end and (self._rows or not self._last.checksum):
            self._write(checksum)

    def _add(self, line: bytes) -> None:
        self._hash.update(line)
        self._end += len(line)
        self._lines += 1
        body = line.rpartition(b',"checksum":')[0] + b"}\n"
        parts = parted(body)
        common, own = (body, (int(load_json(body)["repeat"]), 0, 0.0, 0.0, 0, *UNTRACED)) if parts is None else parts
        kind = self._codes.get(common)
        if kind is None:
            kind = self._codes[common] = self._base + len(self._kinds)
            self._kinds.append(body)
        self._rows.append((kind, *own, len(line)))

    def _write(self, checksum: str) -> None:
        repeats = [int(row[1]) for row in self._rows] or [0]
        header = BlockHeader(
            begin=self._last.end,
            end=self._end,
            first=self._last.lines,
            lines=self._lines,
            digest=self._hash.hexdigest(),
            checksum=checksum,
            base=self._base,
            repeats=(min(repeats), max(repeats)),
        )
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        parts = (
            orjson.dumps(asdict(header)),
            compressor.compress(b"".join(self._kinds)),
            compressor.compress(b"".join(ROW.pack(*row) for row in self._rows)),
        )
        data = b"".join(parts)
        with own_file(self._folder / INDEX, os.O_CREAT) as file:
            append_whole(file, LENGTHS.pack(MAGIC, *map(len, parts), crc32(data)) + data, self._folder / INDEX, durable=False)
        self._last = header
        self._base += len(self._kinds)
        self._kinds, self._rows = [], []
        if self._base > MAX_KINDS:
            self._codes, self._base = {}, 0

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RunError, struct.error):
            self._is_off = True
            self._codes, self._kinds, self._rows = {}, [], []
            with contextlib.suppress(OSError):
                (self._folder / INDEX).unlink(missing_ok=True)
