"""The laws of a journal under any interleaving of appending, syncing, killing and opening again; and under real kills."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cases import cases
from tests.prepared import Prepared
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Note, Trace
from whichloop.runs.run_state import read_records
from whichloop.runs.store import journal as index_writer
from whichloop.runs.store.each_record import each_record
from whichloop.runs.store.files import TRACES, TRIALS, RunError
from whichloop.runs.store.index import INDEX
from whichloop.runs.store.journal import MAX_UNSYNCED, Journal
from whichloop.runs.store.traces import Traces

Key = tuple[str, str, int]


def trace_of(record: Record, size: int) -> bytes:
    """A trace that tells by itself which attempt it is of."""
    noise = random.Random(repr((record.key, record.attempt))).randbytes(size // 2).hex()
    head = {"arm": record.arm, "task": record.task, "repeat": record.repeat, "attempt": record.attempt}
    return (json.dumps({**head, "events": [{"event": "note", "kind": "noise", "noise": noise}]}) + "\n").encode()


def zstdcat(folder: Path) -> bytes:
    path = folder / TRACES
    if not path.exists():
        return b""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text:
        return text.read()


@dataclass(frozen=True)
class Moment:
    """How long both files were when one of them was about to be made durable; it alone had grown since the moment before."""

    trials: int
    traces: int


class Journals(RuleBasedStateMachine):
    """A run directory, and what it has to hold.

    A kill is simulated by what it may leave: what was made durable, and of what was written since any beginning. `os.fsync` is the
    real one; it is listened to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        real = os.fsync

        def listened(fd: int) -> None:
            real(fd)
            if self.folder.as_posix() in os.readlink(f"/proc/self/fd/{fd}"):
                self.moments.append(self.sizes())

        self.patch.setattr(os, "fsync", listened)
        self.patch.setattr(index_writer, "BLOCK_ROWS", 16)
        self.appended: list[tuple[Record, int]] = []
        """In order, with the size of the trace; 0: none."""
        self.safe = 0
        """How many of them were acknowledged."""
        self.safe_moment = 0
        self.begin()

    def begin(self) -> None:
        self.moments: list[Moment] = []
        self.journal = Journal(self.folder)
        self.moments = [self.sizes()]
        self.safe, self.safe_moment = len(self.appended), 0

    def sizes(self) -> Moment:
        trials, traces = (path.stat().st_size if path.exists() else 0 for path in (self.folder / TRIALS, self.folder / TRACES))
        return Moment(trials, traces)

    def latest(self) -> dict[Key, Record]:
        return {record.key: record for record, _ in self.appended}

    @rule(
        task=st.sampled_from(["t1", "t2", "t3", 't"4', "é"]),
        repeat=st.integers(0, 1),
        status=st.sampled_from(["scored", "scored", "errored", "excluded"]),
        size=st.sampled_from([0, 10, 10, 1_000, 300_000]),
        many=st.sampled_from([1, 1, 1, 5, 70, 300]),
    )
    def append(self, task: str, repeat: int, status: str, size: int, many: int) -> None:
        for _ in range(many):
            attempt = sum(record.key == ("a", task, repeat) for record, _ in self.appended)
            record = Record("a", "s", "d", task, repeat, 0, status, answer=task, attempt=attempt)  # type: ignore[arg-type]
            size = min(size, 10) if many > 5 else size
            self.journal.append(record, trace_of(record, size) if size else b"")
            self.appended.append((record, size))

    @rule()
    def sync(self) -> None:
        self.journal.sync()
        self.safe, self.safe_moment = len(self.appended), len(self.moments) - 1

    @rule()
    def close_and_open_again(self) -> None:
        self.journal.close()
        self.read_by_any_way()
        self.begin()

    @rule()
    def a_second_one_is_refused(self) -> None:
        with pytest.raises(RunError, match="another process is writing to this run"):
            Journal(self.folder)

    @rule(when=st.integers(0, 10**6), how_much=st.integers(0, 10**6), of_index=st.integers(0, 10**6))
    def kill(self, when: int, how_much: int, of_index: int) -> None:
        """At any time since the last acknowledgement: `when` of what was made durable since, and `how_much` of what came next."""
        self.journal.close()
        last = len(self.moments) - 1
        at = self.safe_moment + when % (last - self.safe_moment + 1)
        durable, then = self.moments[at], self.moments[min(at + 1, last)]
        grown = (then.trials - durable.trials) + (then.traces - durable.traces)
        more = how_much % (grown + 1)
        cut(self.folder / TRIALS, durable.trials + (more if then.trials > durable.trials else 0))
        cut(self.folder / TRACES, durable.traces + (more if then.traces > durable.traces else 0))
        index = self.folder / INDEX
        cut(index, of_index % (index.stat().st_size + 1) if index.exists() else 0)
        self.survived()
        self.begin()
        self.whole()
        self.read_by_any_way()

    def survived(self) -> None:
        """Before anything is repaired: a beginning of what was appended, with all that was acknowledged."""
        lines = list(each_record(self.folder))
        assert self.safe <= len(lines) <= len(self.appended)
        self.appended = self.appended[: len(lines)]
        self.check(lines)
        self.read_by_any_way()

    def read_by_any_way(self) -> None:
        """The index, torn or ahead of the records, changes nothing."""
        assert list(read_records(self.folder)) == [*{record.key: record for record in each_record(self.folder)}.values()]

    def check(self, lines: list[Record]) -> None:
        traces = Traces(self.folder)
        for line, (record, size) in zip(lines, self.appended, strict=True):
            assert replace(line, trace_at=None) == record
            assert (line.trace_at is not None) is (size > 0)
            if line.trace_at is not None:
                assert traces.read(line) == Trace.from_json(json.loads(trace_of(record, size)))

    def whole(self) -> None:
        """After an opening all frames can be read; the last may hold traces beside those that records point at."""
        assert {trace_of(record, size) for record, size in self.appended if size} <= set(
            zstdcat(self.folder).splitlines(keepends=True)
        )
        assert (self.folder / TRIALS).read_bytes().count(b"\n") == len(self.appended)

    @rule()
    def resume(self) -> None:
        """Trials without a line, and errored ones, run again: then each has a record that stands."""
        self.journal.sync()
        found = {record.key: record for record in read_records(self.folder)}
        assert list(found) == list(self.latest())
        for task in ("t1", "t2", "t3"):
            record = found.get(("a", task, 0))
            if record is None or record.status == "errored":
                attempt = 0 if record is None else sum(each.key == record.key for each, _ in self.appended)
                again = Record("a", "s", "d", task, 0, 0, "scored", answer=task, attempt=attempt)
                self.journal.append(again, trace_of(again, 10))
                self.appended.append((again, 10))
        self.sync()
        latest = read_records(self.folder)
        assert len({record.key for record in latest}) == len(latest)
        assert {("a", task, 0) for task in ("t1", "t2", "t3")} <= {each.key for each in latest if each.status != "errored"}

    @invariant()
    def no_more_is_lost_than_may_be(self) -> None:
        lines = (self.folder / TRIALS).read_bytes().count(b"\n")
        assert self.safe <= lines <= len(self.appended)
        assert len(self.appended) - lines <= MAX_UNSYNCED

    def teardown(self) -> None:
        self.journal.close()
        self.check(list(each_record(self.folder)))
        self.patch.undo()
        shutil.rmtree(self.folder)


def cut(path: Path, size: int) -> None:
    if path.exists():
        os.truncate(path, size)


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=cases(6), stateful_step_count=20, deadline=None)


# --- real processes, really killed ---

ROOT = Path(__file__).parents[3]
ENDLESS = 10**9
"""More trials than any writer comes to before it is killed."""


def noise_in(trace: Trace) -> Any:
    (note,) = trace.events
    assert isinstance(note, Note)
    return note.data["noise"]


def writer(folder: Path, trials: int) -> subprocess.Popen[str]:
    """Start a process that writes to a journal until it has so many trials."""
    command = [sys.executable, "-m", "tests.runs.store.writer_to_kill", str(folder), str(trials)]
    return Prepared(command, cwd=folder, env={"PATH": os.defpath, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)


@pytest.mark.thorough
def test_a_process_killed_again_and_again_ends_with_every_trial_once(tmp_path):
    """What it said is on the disk is on the disk, whenever it is killed: after so many acknowledgements, and while it goes on."""
    moments = random.Random(8)
    looked_at: set[str] = set()
    for _ in range(4):
        with writer(tmp_path, ENDLESS) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == f"open {len(looked_at)}\n"
            said = [child.stdout.readline().strip() for _ in range(moments.randrange(4))]
            time.sleep(moments.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read().split()
        assert child.returncode == -signal.SIGKILL
        found = read_records(tmp_path)
        traces = Traces(tmp_path)
        assert set(said) | looked_at <= {record.task for record in found}
        assert all(noise_is_its_own(traces, record) for record in found if record.task not in looked_at)
        looked_at = {record.task for record in found}
    trials = len(looked_at) + 100
    with writer(tmp_path, trials) as child:
        assert child.communicate()[0].endswith("end\n")
    assert child.returncode == 0
    traces = Traces(tmp_path)
    assert all(noise_is_its_own(traces, record) for record in read_records(tmp_path))
    assert sorted(record.task for record in each_record(tmp_path)) == sorted(f"t{number}" for number in range(trials))
    assert (tmp_path / INDEX).stat().st_size > 0
    Journal(tmp_path).close()
    assert zstdcat(tmp_path).count(b"\n") >= trials  # a frame may hold traces of trials that ran again


def noise_is_its_own(traces: Traces, record: Record) -> bool:
    """Whether the trace of a record is the one that was written with it."""
    return bool(noise_in(traces.read(record))[1] == int(record.task[1:]) % 9973)
