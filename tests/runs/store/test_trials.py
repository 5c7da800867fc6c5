"""The laws of the file of trials: what was written is read, through kills and full disks; damage is told in one line."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.kept import JSON, execute, trace_text
from tests.prepared import Prepared, ran_in_fork
from whichloop.metrics.record import FaultRecord, Record, records_digest
from whichloop.metrics.trace import Note, Trace
from whichloop.runs.store import trials as module
from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import (
    MAX_UNSYNCED,
    TRIALS,
    Traces,
    TrialFile,
    TrialWriter,
    count_rows,
    each_record,
    find_trial,
    read_records,
    read_trace,
)

ROOT = Path(__file__).parents[3]
COUNT, NUMBER = st.integers(0, 10**6), st.floats(0, 1e9)
RECORDS = st.builds(
    Record,
    arm=st.text(),
    suite=st.text(),
    suite_digest=st.text(),
    task=st.text(),
    repeat=COUNT,
    seed=st.integers(-(2**63) + 1, 2**63 - 1),
    status=st.sampled_from(["scored", "errored", "excluded"]),
    reason=st.text(st.characters()),
    stop=st.none() | st.text(),
    answer=JSON,
    scores=st.dictionaries(st.text(), st.floats(0, 1) | st.sampled_from([0, 1, 1.0, -0.0]), max_size=2),
    calls=st.dictionaries(st.text(), COUNT, max_size=2),
    cost_usd=st.none() | NUMBER,
    errors=st.dictionaries(st.text(), COUNT, max_size=2),
    faults=st.lists(st.builds(FaultRecord, st.text(), st.text(), st.booleans(), st.booleans()), max_size=2).map(tuple),
    confidence=st.none() | st.floats(0, 1),
    wall_s=NUMBER,
)


def trace_of(record: Record, pad: str = "") -> bytes:
    head = {"arm": record.arm, "task": record.task, "repeat": record.repeat, "attempt": record.attempt}
    return (json.dumps({**head, "events": [{"event": "note", "kind": "pad", "pad": pad}]}) + "\n").encode()


def add(folder: Path, records: list[Record], pad: str = "") -> None:
    with TrialWriter(folder) as writer:
        for each in records:
            writer.append(each, trace_of(each, pad))


def pad_in(trace: Trace) -> object:
    (note,) = trace.events
    assert isinstance(note, Note)
    return note.data["pad"]


@pytest.fixture
def three(tmp_path: Path, record: Callable[..., Record]) -> list[Record]:
    write_manifest_json(tmp_path, {"config": {}})
    add(tmp_path, [record(task=f"t{number}") for number in range(3)], "x" * 3000)
    return list(read_records(tmp_path))


@settings(max_examples=cases(12))
@given(st.lists(RECORDS, max_size=6))
def test_every_record_is_read_as_it_was_written(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("run")
    with closing(TrialFile(folder)) as file:
        file.add((record, b"") for record in made)
    again = list(each_record(folder))
    assert again == made
    assert records_digest(again) == records_digest(made)
    assert count_rows(folder) == len(made)
    assert list(read_records(folder)) == list({record.key: record for record in made}.values())
    assert [Record.from_json(json.loads(json.dumps(record.to_json()))) for record in made] == made


NO_NUMBER = st.sampled_from([float("nan"), float("inf"), -float("inf")])


@settings(max_examples=cases(12))
@given(
    RECORDS,
    st.sampled_from(["cost_usd", "confidence", "wall_s", "seconds", "started_at", "answer", "scores"]),
    NO_NUMBER | st.tuples(st.none(), NO_NUMBER).map(list) | NO_NUMBER.map(lambda number: {"null": number, "none": None}),
)
def test_what_is_no_number_is_refused_and_never_written_as_null(tmp_path_factory, made, name, value):
    folder = tmp_path_factory.mktemp("run")
    with closing(TrialFile(folder)) as file:
        with pytest.raises((ValueError, TypeError)):
            file.add([(replace(made, **{name: value}), b"")])
        file.add([(made, b"")])
    assert list(each_record(folder)) == [made]


def test_the_last_record_of_a_trial_counts_and_keeps_its_place(tmp_path, record):
    add(tmp_path, [record(task="t1", answer="old"), record(task="t2"), record(task="t1", answer="new", attempt=1)])
    assert [(found.task, found.answer) for found in read_records(tmp_path)] == [("t1", "new"), ("t2", record().answer)]
    assert find_trial(tmp_path, "t1").answer == "new"
    assert len(list(each_record(tmp_path))) == 3


def test_a_trial_that_no_other_follows_gets_to_the_disk_by_itself(tmp_path, record):
    with TrialWriter(tmp_path) as writer:
        writer.append(record(), b"")
        until = time.monotonic() + 30
        while not len(read_records(tmp_path)) and time.monotonic() < until:
            time.sleep(0.01)
        assert len(read_records(tmp_path)) == 1
    with pytest.raises(RunError, match="a trial has ended after its file was closed"):
        writer.append(record(), b"")


def test_whoever_appends_waits_where_the_disk_falls_behind(tmp_path, record, monkeypatch):
    goes_on, real = threading.Event(), TrialFile.add

    def slow(self, trials):
        goes_on.wait(60)
        real(self, trials)

    monkeypatch.setattr(TrialFile, "add", slow)
    with TrialWriter(tmp_path) as writer:
        appended: list[int] = []

        def append() -> None:
            for number in range(MAX_UNSYNCED + 1):
                writer.append(record(task=f"t{number}"), b"")
                appended.append(number)

        thread = threading.Thread(target=append)
        thread.start()
        thread.join(0.5)
        assert len(appended) == MAX_UNSYNCED
        goes_on.set()
        thread.join()
    assert len(read_records(tmp_path)) == MAX_UNSYNCED + 1


@settings(max_examples=cases(8))
@given(sizes=st.lists(st.sampled_from([0, 10, 70_000]), max_size=8), order=st.randoms())
def test_every_trace_is_read_back_in_any_order(tmp_path_factory, record, sizes, order):
    folder = tmp_path_factory.mktemp("run")
    with TrialWriter(folder) as writer:
        for number, size in enumerate(sizes):
            made = record(task=f"t{number}")
            writer.append(made, trace_of(made, "é" * size) if size else b"")
    found, traces = list(read_records(folder)), Traces(folder)
    order.shuffle(found)
    for each in found:
        size = sizes[int(each.task[1:])]
        assert bool(each.trace_at) == bool(size)
        assert not size or pad_in(traces.read(each)) == "é" * size


def test_a_run_can_be_read_while_it_is_written_and_written_by_one_process_only(tmp_path, record):
    with TrialWriter(tmp_path) as writer:
        for number in range(3):
            writer.append(record(task=f"t{number}"), trace_of(record(task=f"t{number}"), "x"))
            writer.sync()
            assert len(read_records(tmp_path)) == number + 1
            assert pad_in(read_trace(tmp_path, find_trial(tmp_path, f"t{number}"))) == "x"
        with pytest.raises(RunError, match=f"{tmp_path}: another process is writing to this run"):
            TrialWriter(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.lock", TRIALS]


def start_writer(folder: Path, trials: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.runs.store.writer_to_kill", str(folder), str(trials)]
    return Prepared(command, cwd=folder, env={"PATH": os.defpath, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)


@pytest.mark.thorough
def test_a_process_killed_again_and_again_ends_with_every_trial_once(tmp_path):
    """What it said is on the disk is on the disk, whenever it is killed; also where the folder is copied and only read."""
    moments, looked_at = random.Random(8), set[str]()
    for _ in range(4):
        with start_writer(tmp_path, 10**9) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == f"open {len(looked_at)}\n"
            said = [child.stdout.readline().strip() for _ in range(moments.randrange(4))]
            time.sleep(moments.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read().split()
        assert child.returncode == -signal.SIGKILL
        copy = shutil.copytree(tmp_path, tmp_path.with_name("copy"), dirs_exist_ok=True)
        for folder in (copy, tmp_path):
            found, traces = read_records(folder), Traces(folder)
            assert set(said) | looked_at <= {each.task for each in found}
            assert all(traces.read(each).head.task == each.task for each in found if each.task not in looked_at)
        shutil.rmtree(copy)
        looked_at = {each.task for each in found}
    trials = len(looked_at) + 100
    with start_writer(tmp_path, trials) as child:
        assert child.communicate()[0].endswith("end\n")
    assert sorted(each.task for each in each_record(tmp_path)) == sorted(f"t{number}" for number in range(trials))
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == ["run.lock", TRIALS]
    assert len((tmp_path / TRIALS).read_bytes()) > 100 * trials  # all is in the one file, though `traces` still reads it


def test_a_killed_run_can_be_read_where_nothing_can_be_written(tmp_path, record, three):
    killed, read_only = tmp_path / "killed", tmp_path / "read-only"
    killed.mkdir()
    file = TrialFile(killed)
    file.add((each, b"") for each in three)
    shutil.copytree(killed, read_only)  # with what is not folded into one file yet
    file.close()
    (read_only / f"{TRIALS}-shm").unlink()
    for path in (*read_only.iterdir(), read_only):
        path.chmod(0o555)
    for path in tmp_path.parents[:3]:
        path.chmod(0o755)
    tmp_path.chmod(0o755)
    code = f"import os, sys; os.setuid(65534) if os.getuid() == 0 else None\nfrom pathlib import Path\n{COUNTS}"
    ended = ran_in_fork(code, tmp_path, str(read_only))
    read_only.chmod(0o755)
    assert ended.stdout == "3\n", ended.stderr


COUNTS = "from whichloop.runs.store.trials import read_records; print(len(read_records(Path(sys.argv[1]))))"

FILLS = """
import resource, sys
from pathlib import Path
from whichloop.metrics.record import Record
from whichloop.runs.store.trials import TrialWriter
{limit}
with TrialWriter(Path(sys.argv[1])) as writer:
    for number in range(4000):
        noise = "".join(f"{{number * k % 99991:05d}}" for k in range(1, 400))
        head = f'{{{{"arm":"a","task":"t{{number}}","repeat":0,"events":[],"noise":"{{noise}}"}}}}'
        writer.append(Record("a", "s", "d", f"t{{number}}", 0, 0, "scored"), head.encode() + b"\\n")
        if number % 3 == 0:
            writer.sync()
"""


def test_a_file_that_may_not_grow_leaves_a_run_that_goes_on(tmp_path, tmp_path_factory, record):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))"
    ended = ran_in_fork(FILLS.format(limit=limit), tmp_path_factory.mktemp("code"), str(tmp_path))
    assert f"CutShort: {tmp_path / TRIALS}: disk I/O error; what was written before is whole" in ended.stderr
    kept = len(read_records(tmp_path))
    assert kept > 5
    add(tmp_path, [record(task=f"t{number}") for number in range(kept, kept + 20)])
    found = read_records(tmp_path)
    assert [each.task for each in found] == [f"t{number}" for number in range(kept + 20)]
    assert all(read_trace(tmp_path, each).head.task == each.task for each in found)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE trials SET wall_s = wall_s + 1 WHERE number = 2", "row 2: its checksum does not fit"),
        ("UPDATE kinds SET record = replace(record, 'scored', 'errored')", "kind 1: its checksum does not fit"),
        ("UPDATE trials SET trace_at = 1 WHERE number = 2", "row 2: its checksum does not fit"),
        ("DELETE FROM kinds WHERE kind = 1", "row 1: its checksum does not fit"),
        ("DELETE FROM trials WHERE number = 2", "manifest.json tells of 3 rows, and 2 are there"),
        ("CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM kinds; END", "not the trials of a run"),
        ("DROP TABLE traces", "not the trials of a run"),
    ],
)
def test_what_is_changed_removed_or_added_is_told(tmp_path, three, statement, said):
    execute(tmp_path, statement)
    for read in (read_records, lambda folder: find_trial(folder, "t2"), lambda folder: list(each_record(folder))):
        with pytest.raises(RunError, match=f"^{tmp_path / TRIALS}: {said}"):
            read(tmp_path)


@pytest.mark.parametrize("statement", ["UPDATE traces SET trace = x'00'", "DELETE FROM traces", "UPDATE traces SET crc = 1"])
def test_a_trace_that_was_changed_or_removed_is_told(tmp_path, three, statement):
    execute(tmp_path, statement)
    assert len(read_records(tmp_path)) == 3
    with pytest.raises(RunError, match=f"{TRIALS}: trace of .*/t1/0: its checksum does not fit"):
        read_trace(tmp_path, three[1])


def test_a_trace_of_another_trial_is_none_of_ones_own(tmp_path, three):
    with pytest.raises(RunError, match=r"the trace of .*/t1/0 is that of another trial"):
        read_trace(tmp_path, replace(three[1], trace_at=three[2].trace_at))


@settings(max_examples=cases(25))
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), cut=st.booleans())
def test_a_changed_byte_is_told_or_changes_nothing(tmp_path_factory, finished, place, change, cut):
    folder = tmp_path_factory.mktemp("run")
    expected = [(record, read_trace(finished, record)) for record in read_records(finished)]
    for name in (MANIFEST, TRIALS):
        shutil.copy(finished / name, folder)
    raw = bytearray((folder / TRIALS).read_bytes())
    at = int(place * len(raw))
    raw[at] ^= change
    (folder / TRIALS).write_bytes(raw[:at] if cut else raw)
    told = ""
    try:
        found = [(record, read_trace(folder, record)) for record in read_records(folder)]
        add(folder, [])
    except RunError as error:
        told = str(error)
    assert found == expected if not told else re.fullmatch(f"{folder / TRIALS}: .+", told)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, record: Callable[..., Record]) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_manifest_json(folder, {"config": {}})
    add(folder, [record(task=f"t{number}", answer=f"x{number}" * 40) for number in range(12)], "y" * 2000)
    assert read_manifest_json(folder)["rows"] == 12
    return folder


@pytest.mark.parametrize(
    ("field", "value"), [("repeat", -1), ("attempt", 10**16), ("trace_at", -1), ("wall_s", 1e300), ("started_at", -1e300)]
)
def test_a_number_out_of_bounds_is_refused_whatever_its_checksum_says(tmp_path, record, field, value):
    with closing(TrialFile(tmp_path)) as file:
        file.add([(replace(record(), **{field: value}), b"")])
    with pytest.raises(RunError, match=f"{TRIALS}: row 1: a number is out of bounds"):
        read_records(tmp_path)


@pytest.mark.parametrize(
    "raw", [b"no database at all, but long enough to be told from an empty one", b"SQLite format 3\x00" + b"\xff" * 90]
)
def test_what_is_no_database_is_one_line(tmp_path, raw):
    (tmp_path / TRIALS).write_bytes(raw)
    for act in (read_records, TrialWriter):
        with pytest.raises(RunError, match=f"^{tmp_path / TRIALS}: .*(not a database|malformed|disk image|truncated).*$"):
            act(tmp_path)


def test_a_trace_that_would_fill_the_memory_is_not_opened(tmp_path, record, three, monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXT", 100)
    with pytest.raises(RunError, match=r"trace of .*/t0/0: its checksum does not fit"):
        read_trace(tmp_path, three[0])
    assert len(trace_text(tmp_path, three[0].trace_at)) > 100


def test_a_trace_that_is_too_long_to_be_read_is_not_written(tmp_path, record, monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXT", len(trace_of(record())))
    add(tmp_path, [record()])
    add(tmp_path, [record(task="t2")], "x")
    assert [bool(each.trace_at) for each in read_records(tmp_path)] == [True, False]


@pytest.mark.parametrize("name", [TRIALS, "run.lock"])
@pytest.mark.parametrize("dangles", [True, False])
def test_nothing_is_written_through_a_link(tmp_path, record, name, dangles):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    add(folder, [record()])
    shutil.copy(folder / name, outside)
    before = outside.read_bytes()
    if dangles:
        outside.unlink()
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    with pytest.raises(RunError, match=f"{name}: a symbolic link; nothing is written through one"):
        add(folder, [record(task="t2")])
    assert (outside.read_bytes() if outside.exists() else None) == (None if dangles else before)
