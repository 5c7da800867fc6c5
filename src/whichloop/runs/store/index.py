"""The index of a large run: what its records say, in blocks that are quick to read, written along with `trials.jsonl`.

trials.index holds blocks one after the other: five numbers (`LENGTHS`), a header in JSON, then two frames of Zstandard: lines of
kinds, and rows of trials that name their kind (`ROW`). A header says which bytes of `trials.jsonl` its block is about, and the
BLAKE2b of the file up to there: an index whose digest is not that of the file is ignored, and so is what follows a damaged block.
The lines behind the last block are read one by one. A run of less than `BLOCK_ROWS` trials has no index.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import zstandard
from pydantic import TypeAdapter

from whichloop.protocol.files import open_regular

INDEX = "trials.index"
BLOCK_ROWS = 4096
"""Trials of a block; one that a journal closes with may have fewer."""
MAX_KINDS = 8192
"""Kinds that a writer remembers; then it forgets them all, and names them anew."""
ROW = struct.Struct("<IqqddqqqqqqI")
"""Kind, own fields (`OwnFields`), and the length of the line in bytes. A kind's number counts from the last block with `base` 0."""
MAX_PART = 1 << 28
"""Bytes of a part of a block, expanded."""
MAGIC = b"LBI1"
LENGTHS = struct.Struct("<4sIIII")
"""Magic number, lengths of header, kinds and rows, and their CRC-32."""
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What a block is about."""

    begin: int
    """Offset in `trials.jsonl` of its first line."""
    end: int
    """Offset behind its last line."""
    first: int
    """Number of lines before it."""
    lines: int
    """Number of lines up to its end."""
    digest: str
    """BLAKE2b of the file up to `end`."""
    checksum: str
    """The same of its lines without their checksums, as a seal has it; empty if unknown."""
    base: int
    """Number of kinds that earlier blocks name; at 0 counting begins anew."""
    repeats: tuple[int, int]
    """The smallest repeat of its trials, and the largest."""


_HEADER = TypeAdapter(BlockHeader)


class IndexBlock(NamedTuple):
    """One block, not yet expanded."""

    header: BlockHeader
    parts: tuple[bytes, bytes, bytes]
    """The header as it is in the file, a frame with one whole line of each kind that no earlier block names, a frame of rows."""

    def kinds(self) -> list[bytes]:
        """Return the lines of its kinds, without their checksums. Raises ValueError and ZstdError."""
        return expanded(self.parts[1]).splitlines(keepends=True)

    def rows(self) -> bytes:
        """Return a `ROW` for each line. Raises ValueError and ZstdError."""
        return expanded(self.parts[2])


def expanded(frame: bytes) -> bytes:
    """Return what a frame holds. Raises ValueError, and ZstdError for what is not a frame."""
    if not 0 <= zstandard.frame_content_size(frame) <= MAX_PART:
        raise ValueError(f"the frame does not say that it holds at most {MAX_PART >> 20} MB")
    return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)


def blocks_of(folder: Path) -> Iterator[IndexBlock]:
    """Yield the blocks of a run's index up to the first one that is torn, damaged or does not go on where the last one ended."""
    end = lines = 0
    with contextlib.suppress(OSError, ValueError), open_regular(folder / INDEX) as file:
        while len(head := file.read(LENGTHS.size)) == LENGTHS.size:
            magic, *lengths, checksum = LENGTHS.unpack(head)
            if magic != MAGIC or max(lengths) > MAX_PART:
                return
            data = file.read(sum(lengths))
            if len(data) < sum(lengths) or crc32(data) != checksum:
                return
            behind = lengths[0] + lengths[1]
            header = _HEADER.validate_json(data[: lengths[0]])
            if header.begin != end or header.first != lines or header.end < end or header.lines < lines:
                return
            yield IndexBlock(header, (data[: lengths[0]], data[lengths[0] : behind], data[behind:]))
            end, lines = header.end, header.lines


def prefix_hash(path: Path, size: int) -> blake2b:
    """Return the BLAKE2b of the first bytes of a file, which takes in more. Raises OSError."""
    hasher = blake2b(digest_size=16)
    with open_regular(path) as file:
        while size > 0 and (data := file.read(min(_READ, size))):
            hasher.update(data)
            size -= len(data)
    return hasher


def row_of(folder: Path, trial: str, name_of: Callable[[bytes], str]) -> tuple[int, int] | None:
    """Return offset and length of the last line of ARM/TASK/REPEAT, as the index has it; None if it has none.

    `name_of` gives the name of a line's trial. Only blocks that may hold it are opened. Raises ValueError, ZstdError and RunError.
    """
    cell, _, repeat = trial.rpartition("/")
    kinds: list[bool] = []
    place = None
    for block in blocks_of(folder):
        header = block.header
        kinds[header.base :] = [name_of(line).rpartition("/")[0] == cell for line in block.kinds()]
        if repeat.isdecimal() and header.repeats[0] <= int(repeat) <= header.repeats[1]:
            offset = header.begin
            for kind, own_repeat, *_, length in ROW.iter_unpack(block.rows()):
                if own_repeat == int(repeat) and kinds[kind]:
                    place = offset, length
                offset += length
    return place
