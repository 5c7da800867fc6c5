"""The run directory: what was written survives a kill at any byte, one process writes at a time, nothing stands twice."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.prepared import ran_in_fork, start_command
from tests.sealing import reseal
from whichloop.metrics.record import FaultRecord, Record, Shared
from whichloop.metrics.record_table import records_digest
from whichloop.protocol.digest import canonical_json, open_line, sha256
from whichloop.runs.run_state import read_records
from whichloop.runs.store.each_record import find_trial, name_meant
from whichloop.runs.store.files import TRACES, TRIALS, RunError
from whichloop.runs.store.journal import MAX_UNSYNCED, Journal
from whichloop.runs.store.seal import tally_of
from whichloop.runs.store.traces import read_trace

COUNT, NUMBER = st.integers(0, 10**6), st.floats(0, 1e9)
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
    seed=st.integers(-(2**64), 2**64),
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
    trace_at=st.none() | st.tuples(COUNT, COUNT, COUNT, COUNT, COUNT),
)
NAMES = {
    "arm": st.sampled_from(["a", "a/b", "b"]),
    "suite": st.just("s"),
    "suite_digest": st.just("d"),
    "task": st.sampled_from(["t1", "t1/0", 't"1', "t2", "é"]),
    "repeat": st.integers(0, 1),
    "seed": st.just(0),
    "status": st.just("scored"),
}


@given(RECORDS)
def test_a_record_is_read_back_from_its_json(made):
    again = Record.from_json(json.loads(json.dumps(made.to_json(), ensure_ascii=True, allow_nan=False)))
    assert again == made
    assert records_digest([again]) == records_digest([made])


@given(RECORDS, st.none() | st.tuples(COUNT, COUNT, COUNT, COUNT, COUNT))
def test_a_line_is_the_json_of_its_record_in_ascii_with_the_place_of_its_trace(made, place):
    line = made.line(place)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert repr(json.loads(open_line(line))) == repr(json.loads(json.dumps(replace(made, trace_at=place).to_json())))


NO_NUMBER = st.sampled_from([float("nan"), float("inf"), -float("inf")])


@given(
    RECORDS,
    st.sampled_from(["cost_usd", "confidence", "wall_s", "seconds", "started_at", "answer", "scores"]),
    NO_NUMBER | st.tuples(st.none(), NO_NUMBER).map(list) | NO_NUMBER.map(lambda number: {"null": number, "none": None}),
)
def test_what_is_no_number_is_refused_and_never_written_as_null(made, name, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(made, **{name: value}).line(None)


@given(st.lists(RECORDS, max_size=6))
def test_records_that_share_what_they_have_in_common_are_the_same(made):
    shared = Shared()
    alone = [Record.from_json(json.loads(each.line(None))) for each in made]
    assert repr([Record.from_json(shared.of(json.loads(each.line(None)))) for each in made]) == repr(alone)


@given(st.lists(RECORDS, max_size=4))
def test_the_digest_is_that_of_the_sorted_canonical_texts(made):
    names = (
        "arm", "suite_digest", "task", "repeat", "status", "answer", "stop", "steps", "calls", "tool_calls",
        "input_tokens", "output_tokens", "errors", "scores", "false_success", "trace_digest",
    )  # fmt: skip
    texts = [
        canonical_json({name: getattr(each, name) for name in names} | {"faults": [asdict(fault) for fault in each.faults]})
        for each in sorted(made, key=lambda each: each.key)
    ]
    assert records_digest(made) == sha256("\n".join(texts))


def trace_of(record: Record, size: int = 20) -> bytes:
    head = {"arm": record.arm, "task": record.task, "repeat": record.repeat, "events": [{"event": "note", "pad": "x" * size}]}
    return (json.dumps(head) + "\n").encode()


def write(folder: Path, records: list[Record]) -> None:
    with Journal(folder) as journal:
        for made in records:
            journal.append(made, trace_of(made))


def zstdcat(folder: Path) -> bytes:
    """All traces, as the tool of that name prints them."""
    if not (folder / TRACES).exists():
        return b""
    with (folder / TRACES).open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text:
        return text.read()


def keys(folder: Path) -> list[tuple[str, str, int]]:
    """One per line, in the order of the file."""
    return [Record.from_json(json.loads(line)).key for line in (folder / TRIALS).read_bytes().splitlines()]


@settings(max_examples=cases(15))
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
        assert read_trace(folder, found).head.task == found.task


@pytest.fixture
def three(tmp_path, record) -> tuple[Path, list[Record]]:
    """A run of three trials."""
    made = [record(task=f"t{number}") for number in range(3)]
    write(tmp_path, made)
    return tmp_path, made


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])  # and some at both ends
def test_a_kill_at_any_byte_of_the_last_record_is_repaired(three, step):
    folder, made = three
    raw = (folder / TRIALS).read_bytes()
    tail = raw.rfind(b"\n", 0, -1) + 1
    for cut in sorted({*range(tail, len(raw), step), *range(tail, tail + 4), *range(len(raw) - 4, len(raw))}):
        (folder / TRIALS).write_bytes(raw[:cut])
        assert len(read_records(folder)) == 2
        Journal(folder).close()
        assert (folder / TRIALS).read_bytes() == raw[:tail]
    write(folder, made[2:])
    assert keys(folder) == [item.key for item in made]


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_byte_of_the_last_frame_is_repaired(three, step):
    folder, made = three
    write(folder, [replace(made[2], task="t3")])
    trials, traces = (folder / TRIALS).read_bytes(), (folder / TRACES).read_bytes()
    before_last = trials.rfind(b"\n", 0, -1) + 1
    first = tally_of(folder).traces - json.loads(trials[before_last:])["trace_at"][1]
    for end in sorted({*range(first, len(traces) + 1, step), len(traces)}):  # traces go first: then the record is not there
        (folder / TRIALS).write_bytes(trials[:before_last])
        (folder / TRACES).write_bytes(traces[:end])
        Journal(folder).close()
        assert (folder / TRACES).read_bytes() == traces[:first]
        write(folder, [replace(made[2], task="t3")])
        found = read_records(folder)
        assert [item.task for item in found] == ["t0", "t1", "t2", "t3"]
        assert [read_trace(folder, item).head.task for item in found] == ["t0", "t1", "t2", "t3"]
        assert zstdcat(folder).count(b"\n") == 4


@given(st.binary(max_size=80))
def test_any_bytes_behind_the_last_line_are_cut_off_or_named(tmp_path_factory, rest):
    folder, said = tmp_path_factory.mktemp("run"), ""
    (folder / TRIALS).write_bytes(rest)
    try:
        assert read_records(folder) == []
    except RunError as error:
        said = str(error)
    assert "\n" not in said
    if rest.count(b"\n"):
        assert f"{TRIALS}:1: " in said
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
    reseal(folder / TRIALS)
    with pytest.raises(RunError, match=rf"{TRIALS}:2: (not a record of a trial|its checksum)") as caught:
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


def test_no_more_finished_trials_wait_for_the_disk_than_may_be_lost(tmp_path, record):
    made = [record(task=f"t{number}") for number in range(3 * MAX_UNSYNCED)]
    with Journal(tmp_path) as journal:
        for appended, each in enumerate(made, 1):
            journal.append(each, trace_of(each, 2_000))
            if appended % 100 == 0:
                assert appended - len(read_records(tmp_path)) <= MAX_UNSYNCED
        journal.sync()
        assert len(read_records(tmp_path)) == len(made)
    assert [found.task for found in read_records(tmp_path)] == [each.task for each in made]


def test_a_trial_that_no_other_follows_gets_to_the_disk_by_itself(tmp_path, record):
    with Journal(tmp_path) as journal:
        journal.append(record(), b"")
        while not read_records(tmp_path):
            time.sleep(0.01)


def test_after_a_journal_was_closed_nothing_is_taken(tmp_path, record):
    journal = Journal(tmp_path)
    journal.close()
    with pytest.raises(RunError, match="after its journal was closed"):
        journal.append(record(), b"")


def test_a_number_that_is_none_stops_the_run_and_is_never_written_as_null(tmp_path, record):
    journal = Journal(tmp_path)
    journal.append(record(task="t0"), b"")
    journal.sync()
    journal.append(record(task="t1", wall_s=float("nan")), b"")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.sync()
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append(record(task="t2"), b"")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.close()
    write(tmp_path, [record(task="t1")])
    assert [task for _, task, _ in keys(tmp_path)] == ["t0", "t1"]


def test_a_second_process_is_refused_and_told_why(tmp_path, record):
    (tmp_path / "writes.py").write_text(
        "import sys; from pathlib import Path; from whichloop.runs.store.journal import Journal\n"
        f"with Journal(Path({str(tmp_path)!r})): print('writing', flush=True); sys.stdin.read()"
    )
    with start_command([], tmp_path, {}, module="writes", stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "writing\n"
        with pytest.raises(RunError, match=f"{tmp_path}: another process is writing to this run"):
            Journal(tmp_path)
        child.stdin.close()
    write(tmp_path, [record()])
    assert len(read_records(tmp_path)) == 1


FILLS = """
import resource, sys
from pathlib import Path
from whichloop.runs.store.files import RunError
from whichloop.runs.store.journal import Journal
from whichloop.metrics.record import Record
{limit}
with Journal(Path(sys.argv[1])) as journal:
    for number in range(4000):
        made = Record("a", "s", "d", f"t{{number}}", 0, 0, "scored")
        noise = "".join(f"{{number * k % 99991:05d}}" for k in range(1, {noise}))
        head = f'{{{{"arm":"a","task":"t{{number}}","repeat":0,"events":[],"noise":"{{noise}}"}}}}'
        journal.append(made, head.encode() + b"\\n")
        if number % 3 == 0:
            journal.sync()
"""
LIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))"


def check_it_goes_on(folder: Path, record: Callable[..., Record]) -> None:
    """What a full disk left is whole, and can be gone on with once there is room."""
    kept = keys(folder)
    assert len(kept) > 5
    assert [task for _, task, _ in kept] == [f"t{number}" for number in range(len(kept))]
    assert all(read_trace(folder, found).head.task == found.task for found in read_records(folder))
    write(folder, [record(task=f"t{number}") for number in range(len(kept), len(kept) + 20)])
    assert [task for _, task, _ in keys(folder)] == [f"t{number}" for number in range(len(kept) + 20)]
    assert all(read_trace(folder, found).head.task == found.task for found in read_records(folder))
    assert zstdcat(folder).count(b"\n") == len(kept) + 20


@pytest.mark.parametrize("noise", [2, 800])  # the trials' file is full first, or that of traces
def test_a_disk_that_is_full_leaves_whole_lines_and_a_run_that_goes_on(tmp_path, tmp_path_factory, record, noise):
    ended = ran_in_fork(FILLS.format(limit=LIMIT, noise=noise), tmp_path_factory.mktemp("code"), str(tmp_path))
    name = TRIALS if noise == 2 else TRACES
    assert f"DiskError: {tmp_path / name}: File too large; what was written before is whole" in ended.stderr
    assert (tmp_path / name).stat().st_size <= 30_000
    check_it_goes_on(tmp_path, record)


def test_a_file_system_that_is_full_leaves_whole_lines_and_a_run_that_goes_on(tmp_path, record):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        ended = ran_in_fork(FILLS.format(limit="", noise=400), tmp_path, str(small))
        assert "No space left on device; what was written before is whole" in ended.stderr
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        check_it_goes_on(small, record)
    finally:
        subprocess.run(["umount", str(small)], check=True)


# --- links ---


@pytest.mark.parametrize("name", [TRIALS, TRACES, "run.lock"])
@pytest.mark.parametrize("dangles", [True, False])
def test_nothing_is_written_through_a_link(tmp_path, record, name, dangles):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    write(folder, [record()])  # traces.zst has a frame, which a record points at
    if not dangles:
        outside.write_bytes(b"mine, and no line")
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    with pytest.raises(RunError, match=f"{name}: a symbolic link; nothing is written through one"):
        write(folder, [record(task="t2")])
    assert (outside.read_bytes() if outside.exists() else None) == (None if dangles else b"mine, and no line")


@pytest.mark.parametrize(
    "place",
    [
        ["a", "b", "c", "d"],
        "abcd",
        {"a": 1},
        [0, 10, 0, "x", 0],
        [[0], [10], [0], [10], [0]],
        [0, 10, 0, 1, -1],
        [True, 1, 0, 1, 0],
        [0, 10, 0, 1.0, 0],
        [10**400, 1, 0, 1, 0],
        [0, 10, 0, 2**63, 0],
        [],
        [0],
        [0, 10],
        3,
    ],
)
def test_a_place_that_is_none_is_named_by_its_line(tmp_path, record, place):
    row = json.loads(record().line(None)) | {"trace_at": place}
    (tmp_path / TRIALS).write_bytes(record(task="t0").line(None) + json.dumps(row).encode("ascii") + b"\n")
    reseal(tmp_path / TRIALS)
    with pytest.raises(RunError, match=rf"{TRIALS}:2: not a record of a trial: ValueError: trace_at") as caught:
        read_records(tmp_path)
    assert "\n" not in str(caught.value)


# --- one trial of many ---


@settings(max_examples=15)
@given(st.lists(RECORDS | st.builds(Record, **NAMES), min_size=1, max_size=5), st.data())
def test_one_trial_is_found_without_the_others_as_among_all(tmp_path_factory, made, data):
    folder = tmp_path_factory.mktemp("run")
    write(folder, made)
    wanted = data.draw(st.sampled_from([*(each.name for each in made), *(each.task for each in made), "a", "a/t", "t1/0", "", "x"]))
    records = {each.name: each for each in read_records(folder)}
    try:
        expected: Record | str = records[name_meant(records, wanted, folder)]
    except RunError as error:
        expected = str(error)
    try:
        found: Record | str = find_trial(folder, wanted)
    except RunError as error:
        found = str(error)
    assert found == expected


def test_of_several_lines_of_a_trial_the_last_is_found(tmp_path, record):
    write(tmp_path, [record(status="errored"), record(task="t2"), record(attempt=1)])
    assert find_trial(tmp_path, "a/t1/0").attempt == 1


def test_a_line_without_a_name_is_named_by_its_number(three):
    folder, _ = three
    lines = (folder / TRIALS).read_bytes().splitlines()
    (folder / TRIALS).write_bytes(b"\n".join([lines[0], b"[]", lines[2], b""]))
    reseal(folder / TRIALS)
    with pytest.raises(RunError, match=rf"{TRIALS}:2: (not a record of a trial|its checksum)"):
        find_trial(folder, "t0")
