"""The records of a run directory as a table."""

from __future__ import annotations

from pathlib import Path

from loopbench.metrics.record_table import RecordStore, RecordTable
from loopbench.runs.store.files import TRIALS
from loopbench.runs.store.record_lines import RecordReader, latest
from loopbench.runs.store.seal import run_lines


def read_records(folder: Path) -> RecordTable:
    """Return the records of a run, the last one of each trial, in the order in which trials first ended.

    A torn last line, left by a kill, is skipped. Raises RunError for any other line that is not a record.
    """
    return latest(read_all(folder))


def read_all(folder: Path) -> RecordStore:
    """Return all records of a run, also those that a later one of the same trial replaces. Raises as `read_records`."""
    reader, path = RecordReader(), folder / TRIALS
    for number, line in enumerate(run_lines(folder), 1):
        reader.add(line, path, number)
    return reader.store()
