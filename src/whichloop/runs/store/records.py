"""The records of a run directory as a table."""

from __future__ import annotations

from pathlib import Path

from zstandard import ZstdError

from whichloop.metrics.record_table import RecordStore, RecordTable
from whichloop.runs.store.files import TRIALS
from whichloop.runs.store.index import blocks_of, prefix_hash
from whichloop.runs.store.record_lines import RecordReader, latest
from whichloop.runs.store.seal import NOTHING_READ, LinesRead, read_seal, run_lines


def read_records(folder: Path) -> RecordTable:
    """Return the records of a run, the last one of each trial, in the order in which trials first ended.

    A torn last line, left by a kill, is skipped. Raises RunError for any other line that is not a record.
    """
    return latest(read_all(folder))


def read_all(folder: Path) -> RecordStore:
    """Return all records of a run, also those that a later one of the same trial replaces. Raises as `read_records`."""
    path = folder / TRIALS
    reader, indexed = _indexed(folder)
    for number, line in enumerate(run_lines(folder, before=indexed), indexed.lines + 1):
        reader.add(line, path, number)
    return reader.store()


def _indexed(folder: Path) -> tuple[RecordReader, LinesRead]:
    """Return what the index says, and of which lines; of none where it is missing, damaged or of another file.

    It is of this file if that begins with the bytes that the index is about, by their digest, and with the lines that were sealed.
    """
    reader, seal, ends = RecordReader(), read_seal(folder), dict[int, str]()
    last = None
    try:
        for block in blocks_of(folder):
            reader.add_block(block)
            last = block.header
            ends[last.lines] = last.checksum
        if last is None or (seal is not None and ends.get(seal.lines) != seal.checksum):
            return RecordReader(), NOTHING_READ
        if prefix_hash(folder / TRIALS, last.end).hexdigest() != last.digest:
            return RecordReader(), NOTHING_READ
    except (OSError, ValueError, IndexError, ZstdError):
        return RecordReader(), NOTHING_READ
    return reader, LinesRead(last.lines, last.end)
