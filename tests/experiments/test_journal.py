"""The run directory: what was written survives a kill at any byte, one process writes at a time, nothing stands twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.experiments.journal import (
    MOST_UNSYNCED,
    TRACES,
    TRIALS,
    Journal,
    RunError,
    read_manifest,
    read_records,
    read_trace,
    write_manifest,
)
from loopbench.metrics.record import FaultRecord, Record, records_digest

COUNT = st.integers(0, 10**6)
NUMBER = st.floats(0, 1e9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.builds(
    Record,
    arm=st.text(),
    suite=st.text(),
    suite_digest=st.text(),
    task=st.text(),
    repeat=COUNT,
    seed=st.integers(),
    status=st.sampled_from(["scored", "errored", "excluded"]),
    reason=st.text(st.characters()),
    stop=st.none() | st.text(),
    answer=JSON,
    scores=st.dictionaries(st.text(), NUMBER, max_size=2),
    calls=st.dictionaries(st.text(), COUNT, max_size=2),
    cost_usd=st.none() | NUMBER,
    errors=st.dictionaries(st.text(), COUNT, max_size=2),
    faults=st.lists(st.builds(FaultRecord, st.text(), st.text(), st.booleans(), st.booleans(), st.booleans()), max_size=2).map(
        tuple
    ),
    confidence=st.none() | st.floats(0, 1),
    wall_s=NUMBER,
    trace_at=st.none() | st.tuples(COUNT, COUNT),
)


@given(RECORDS)
def test_a_record_is_read_back_from_its_json(made):
    again = Record.from_json(json.loads(json.dumps(made.to_json(), ensure_ascii=True, allow_nan=False)))
    assert again == made
    assert records_digest([again]) == records_digest([made])


def trace_of(record: Record, size: int = 20) -> bytes:
    head = {"arm": record.arm, "task": record.task, "repeat": record.repeat, "events": [{"event": "note", "pad": "x" * size}]}
    return (json.dumps(head) + "\n").encode()


def write(folder: Path, records: list[Record]) -> None:
    with Journal(folder) as journal:
        for made in records:
            journal.append(made, trace_of(made))


def keys(folder: Path) -> list[tuple[str, str, int]]:
    """One per line, in the order of the file."""
    lines = (folder / TRIALS).read_bytes().splitlines()
    return [Record.from_json(json.loads(line)).key for line in lines]


@settings(max_examples=40)
@given(st.lists(RECORDS, max_size=8, unique_by=lambda made: made.key), st.data())
def test_what_is_cut_off_anywhere_loses_only_records_that_were_not_whole(tmp_path_factory, made, data):
    folder = tmp_path_factory.mktemp("run")
    write(folder, made)
    raw = (folder / TRIALS).read_bytes()
    cut = data.draw(st.integers(0, len(raw)))
    (folder / TRIALS).write_bytes(raw[:cut])
    whole = raw[:cut].count(b"\n")
    assert [found.key for found in read_records(folder)] == [item.key for item in made[:whole]]
    write(folder, made[whole:])
    assert keys(folder) == [item.key for item in made]
    assert records_digest(read_records(folder)) == records_digest(made)
    for found in read_records(folder):
        assert read_trace(folder, found)["task"] == found.task


@pytest.fixture
def three(tmp_path, record) -> tuple[Path, list[Record]]:
    """A run of three trials."""
    made = [record(task=f"t{number}") for number in range(3)]
    write(tmp_path, made)
    return tmp_path, made


def test_a_kill_at_any_byte_of_the_last_record_is_repaired(three):
    folder, made = three
    raw = (folder / TRIALS).read_bytes()
    tail = raw.rfind(b"\n", 0, -1) + 1
    for cut in range(tail, len(raw)):
        (folder / TRIALS).write_bytes(raw[:cut])
        assert len(read_records(folder)) == 2
        Journal(folder).close()
        assert (folder / TRIALS).read_bytes() == raw[:tail]
    write(folder, made[2:])
    assert keys(folder) == [item.key for item in made]


def test_a_kill_at_any_byte_of_the_last_trace_is_repaired(three):
    folder, made = three
    trials, traces = (folder / TRIALS).read_bytes(), (folder / TRACES).read_bytes()
    before_last = trials.rfind(b"\n", 0, -1) + 1
    for cut in range(traces.rfind(b"\n", 0, -1) + 1, len(traces) + 1):  # traces go first: then the record is not there
        (folder / TRIALS).write_bytes(trials[:before_last])
        (folder / TRACES).write_bytes(traces[:cut])
        write(folder, made[2:])
        found = read_records(folder)
        assert [item.key for item in found] == [item.key for item in made]
        assert [read_trace(folder, item)["task"] for item in found] == ["t0", "t1", "t2"]


def test_a_torn_line_longer_than_a_block_is_repaired(tmp_path, record):
    made = [record(task="t0"), record(task="t1")]
    with Journal(tmp_path) as journal:
        journal.append(made[0], trace_of(made[0], 10))
        journal.sync()
        journal.append(made[1], trace_of(made[1], 3_000_000))
    traces = (tmp_path / TRACES).read_bytes()
    (tmp_path / TRACES).write_bytes(traces[:-1])
    Journal(tmp_path).close()
    assert (tmp_path / TRACES).read_bytes() == trace_of(made[0], 10)


@given(st.binary(max_size=80))
def test_any_bytes_behind_the_last_line_are_cut_off_or_named(tmp_path_factory, rest):
    folder = tmp_path_factory.mktemp("run")
    (folder / TRIALS).write_bytes(rest)
    said = ""
    try:
        assert read_records(folder) == []
    except RunError as error:
        said = str(error)
    assert "\n" not in said
    if rest.count(b"\n"):
        assert f"{TRIALS}:1: no record" in said
    else:
        assert not said
        Journal(folder).close()
        assert (folder / TRIALS).read_bytes() == b""


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"version": 9}',
        b'{"version": 1}',
        b"",
        b"\xff",
        b'{"version":1,"faults":[3]}',
        b'{"version":1,"faults":[],"arm":"a","task":5,"repeat":0}',
        b'{"version":1,"faults":[],"arm":"a","task":"t","repeat":true}',
        b"[" * 9_999,
    ],
)
def test_a_corrupt_line_in_the_middle_is_named_by_its_number(three, line):
    folder, _ = three
    lines = (folder / TRIALS).read_bytes().splitlines()
    (folder / TRIALS).write_bytes(b"\n".join([lines[0], line, *lines[2:], b""]))
    with pytest.raises(RunError, match=rf"{TRIALS}:2: no record of a trial") as caught:
        read_records(folder)
    assert "\n" not in str(caught.value)


def test_the_last_record_of_a_trial_counts_and_keeps_its_place(tmp_path, record):
    write(tmp_path, [record(task="t1", status="errored"), record(task="t2"), record(task="t1", attempt=1)])
    assert [(found.task, found.status, found.attempt) for found in read_records(tmp_path)] == [
        ("t1", "scored", 1),
        ("t2", "scored", 0),
    ]


def test_a_new_run_has_no_records(tmp_path):
    assert read_records(tmp_path) == []


# --- writing ---


def test_finished_trials_wait_for_the_disk_by_number_and_by_time(tmp_path, record, monkeypatch):
    with Journal(tmp_path) as journal:
        for number in range(MOST_UNSYNCED - 1):
            journal.append(record(task=f"t{number}"), b"")
        assert read_records(tmp_path) == []
        journal.append(record(task="last"), b"")
        assert len(read_records(tmp_path)) == MOST_UNSYNCED
        monkeypatch.setattr("loopbench.experiments.journal.LONGEST_UNSYNCED_S", 0.0)
        journal.append(record(task="late"), b"")
        assert len(read_records(tmp_path)) == MOST_UNSYNCED + 1


def test_a_second_process_is_refused_and_told_why(tmp_path, record):
    code = (
        "import sys; from pathlib import Path; from loopbench.experiments.journal import Journal\n"
        f"with Journal(Path({str(tmp_path)!r})): print('writing', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "writing\n"
        with pytest.raises(RunError, match=f"{tmp_path}: another process is writing to this run"):
            Journal(tmp_path)
        child.stdin.close()
    write(tmp_path, [record()])
    assert len(read_records(tmp_path)) == 1


def test_a_disk_that_is_full_leaves_whole_lines_and_a_run_that_goes_on(tmp_path, record):
    code = f"""
import resource, sys
from pathlib import Path
from loopbench.experiments.journal import Journal, RunError
from loopbench.metrics.record import Record
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
with Journal(Path({str(tmp_path)!r})) as journal:
    for number in range(1000):
        journal.append(Record("a", "s", "d", f"t{{number}}", 0, 0, "scored"), b"")
        if number % 3 == 0:
            journal.sync()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RunError: " in ended.stderr
    assert "File too large; what was written before is whole" in ended.stderr
    assert (tmp_path / TRIALS).stat().st_size <= 10_000
    kept = keys(tmp_path)
    assert len(kept) > 5
    write(tmp_path, [record(task=f"t{number}") for number in range(len(kept), 20)])
    assert [task for _, task, _ in keys(tmp_path)] == [f"t{number}" for number in range(20)]


# --- traces and manifests ---


def test_a_trace_that_is_not_there_is_said_to_be_missing(three, record):
    folder, _ = three
    first, second, _ = read_records(folder)
    assert read_trace(folder, first)["task"] == "t0"
    for damaged, said in [
        (record(task="t0", status="excluded", reason="no plan"), "has no trace: no plan"),
        (record(task="t0", trace_at=second.trace_at), "is that of another trial"),
        (record(task="t0", trace_at=(1, 5)), "no trace at 1"),
        (record(task="t0", trace_at=(-1, 5)), "no trace at -1"),
        (record(task="t0", trace_at=("x", 5)), "no trace at x"),
        (record(task="t0", trace_at=(10**9, 5)), "no trace at"),
    ]:
        with pytest.raises(RunError, match=said):
            read_trace(folder, damaged)
    (folder / TRACES).unlink()
    with pytest.raises(RunError, match="no trace at 0"):
        read_trace(folder, first)


@settings(max_examples=40)
@given(st.dictionaries(st.text(st.characters()), JSON, max_size=4))
def test_a_manifest_is_read_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    write_manifest(folder, data | {"config": {}})
    assert read_manifest(folder) == data | {"config": {}}
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"config": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path, raw):
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(RunError, match=r"manifest\.json") as caught:
        read_manifest(tmp_path)
    assert "\n" not in str(caught.value)
    shutil.rmtree(tmp_path)
    with pytest.raises(RunError, match="no run directory"):
        read_manifest(tmp_path)
