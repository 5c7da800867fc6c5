"""Whoever appends faster than the disk takes it waits."""

from __future__ import annotations

from threading import Condition, Event

from whichloop.runs.run_state import read_records
from whichloop.runs.store import journal as journal_module
from whichloop.runs.store.files import append_whole
from whichloop.runs.store.journal import Journal


def test_whoever_appends_waits_where_the_disk_falls_behind(tmp_path, record, monkeypatch):
    """The first write is held until whoever appends waits, or has appended everything: so no time decides what is seen."""
    waits_or_is_through, unsynced = Event(), list[int]()

    class Noticing(Condition):
        def wait_for(self, predicate, timeout=None):
            if not predicate():
                waits_or_is_through.set()
            return super().wait_for(predicate, timeout)

    def write(file, data, path):
        assert waits_or_is_through.wait(60)
        unsynced.append(journal._unsynced)
        append_whole(file, data, path)

    monkeypatch.setattr(journal_module, "Condition", Noticing)
    monkeypatch.setattr(journal_module, "append_whole", write)
    monkeypatch.setattr(journal_module, "MAX_UNSYNCED", 5)
    monkeypatch.setattr(journal_module, "BATCH", 2)
    with Journal(tmp_path) as journal:
        for number in range(50):
            journal.append(record(task=f"t{number}"), b"")
        waits_or_is_through.set()
    assert 0 < max(unsynced) <= 5
    assert len(read_records(tmp_path)) == 50
