"""A journal that fails as it is opened or closed lets go of its files, and of the lock, so that the run can be resumed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whichloop.metrics.record import Record
from whichloop.runs.store import journal
from whichloop.runs.store.files import TRACES, TRIALS
from whichloop.runs.store.journal import Journal
from whichloop.runs.store.traces import TraceWriter


def open_files(folder: Path) -> set[str]:
    """The names of the folder's files that this process has open."""
    handles = [Path("/proc/self/fd") / handle for handle in os.listdir("/proc/self/fd")]
    targets = [Path(os.readlink(handle)) for handle in handles if handle.is_symlink()]
    return {target.name for target in targets if target.parent == folder}


def fails(*_: object) -> None:
    raise OSError("the disk is gone")


def test_an_index_that_cannot_be_opened_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path) as opened:
        opened.append(Record("a", "s", "d", "t", 0, 0, "scored"), b"{}")
    with monkeypatch.context() as patched:
        patched.setattr(journal, "IndexWriter", fails)
        with pytest.raises(OSError, match="the disk is gone"):
            Journal(tmp_path)
    assert open_files(tmp_path) == set()
    with Journal(tmp_path):
        assert open_files(tmp_path) >= {TRIALS, TRACES}


def test_a_file_that_cannot_be_closed_keeps_neither_the_other_nor_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closes = TraceWriter.close

    def closes_and_fails(writer: TraceWriter) -> None:
        closes(writer)
        fails()

    opened = Journal(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(TraceWriter, "close", closes_and_fails)
        with pytest.raises(OSError, match="the disk is gone"):
            opened.close()
    assert open_files(tmp_path) == set()
    Journal(tmp_path).close()
