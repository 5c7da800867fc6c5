"""The index of a large run: it saves time, and whatever becomes of it, what is read is what the journal holds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.runs import run_state as records
from whichloop.runs.run_state import read_records
from whichloop.runs.store import each_record as finding
from whichloop.runs.store import journal as index_writer
from whichloop.runs.store.each_record import each_record, find_trial
from whichloop.runs.store.files import TRIALS, DiskError, RunError, append_whole, write_manifest_json
from whichloop.runs.store.index import INDEX, blocks_of
from whichloop.runs.store.journal import Journal

FIRST = Record("a/clean", "s", "d", "t-0", 0, 5, "scored", stop="finished", scores={"accuracy": 1.0}, wall_s=0.25)
SOME = [
    replace(
        FIRST, task=f"t-{place % 7}", repeat=place // 7, steps=place % 3, answer="é" if place == 9 else place % 2, attempt=place % 5
    )
    for place in range(100)
]


def write(folder: Path, some: list[Record]) -> None:
    with Journal(folder) as journal:
        for record in some:
            journal.append(record, b"")


def sealed_run(folder: Path) -> None:
    write_manifest_json(folder, {"config": {}})
    for begin in (0, 40, 90, 97):
        write(folder, SOME[begin : {0: 40, 40: 90, 90: 97, 97: 100}[begin]])
    write(folder, [replace(SOME[3], attempt=9, status="errored")])


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_writer, "BLOCK_ROWS", 16)
        yield patch


@pytest.fixture(scope="module")
def run(patched: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    sealed_run(folder)
    return folder


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def expected(folder: Path) -> list[Record]:
    return [*{record.key: record for record in each_record(folder)}.values()]


def indexed(folder: Path) -> int:
    """How many lines are read by the index."""
    return records._indexed(folder)[1].lines


def test_a_sealed_run_is_read_by_its_index(run):
    assert indexed(run) == 101
    assert list(read_records(run)) == expected(run)
    assert len([*blocks_of(run)]) >= 5


def test_a_small_run_has_none(tmp_path):
    write(tmp_path, SOME[:10])
    assert not (tmp_path / INDEX).exists()
    assert len(read_records(tmp_path)) == 10


@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_damage_to_the_index_changes_nothing(run, place, value, is_cut):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(run, Path(name) / "copy"))
        data = bytearray((folder / INDEX).read_bytes())
        place %= len(data)
        if is_cut:
            del data[place:]
        else:
            data[place] ^= value
        (folder / INDEX).write_bytes(data)
        assert list(read_records(folder)) == expected(run)


def test_a_line_that_was_edited_is_refused_though_the_index_is_whole(copied):
    trials = copied / TRIALS
    trials.write_bytes(trials.read_bytes().replace(b'"steps":2', b'"steps":1', 1))
    with pytest.raises(RunError, match=r"trials.jsonl:3: its checksum does not fit"):
        read_records(copied)


def test_lines_that_were_dropped_are_missed_though_the_index_has_them(copied):
    trials = copied / TRIALS
    trials.write_bytes(b"".join(trials.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(RunError, match=r"tells of 101 lines, and 99 are there"):
        read_records(copied)


def test_a_run_without_an_index_gets_one_when_it_goes_on(copied, patched):
    (copied / INDEX).unlink()
    assert indexed(copied) == 0
    before = list(read_records(copied))
    write(copied, [])
    assert indexed(copied) == 101
    assert list(read_records(copied)) == before
    write(copied, [replace(FIRST, task="new")])
    assert indexed(copied) == 102


def test_what_a_kill_leaves_behind_the_index_is_read_line_by_line(copied, patched):
    kept = (copied / INDEX).read_bytes()
    write(copied, [replace(FIRST, task="new", repeat=repeat) for repeat in range(20)])
    (copied / INDEX).write_bytes(kept + b"LBI1 torn")
    found = read_records(copied)
    assert (len(found), list(found)) == (120, expected(copied))
    write(copied, [replace(FIRST, task="newer")])  # the writer mends it
    assert indexed(copied) == 122
    assert list(read_records(copied)) == expected(copied)


def test_many_kinds_are_named_anew(tmp_path, patched, monkeypatch):
    monkeypatch.setattr(index_writer, "MAX_KINDS", 5)
    for begin in range(0, 100, 20):
        write(tmp_path, SOME[begin : begin + 20])
    assert [block.header.base for block in blocks_of(tmp_path)].count(0) > 1
    assert indexed(tmp_path) == 100
    assert list(read_records(tmp_path)) == expected(tmp_path) == SOME


def test_a_trial_of_a_large_run_is_found_by_the_index(copied, monkeypatch):
    monkeypatch.setattr(finding, "MAX_SCANNED", 0)
    scanned, known = list[Path](), expected(copied)

    def scanning(folder: Path) -> Iterator[bytes]:
        scanned.append(folder)
        return iter(())

    monkeypatch.setattr(finding, "run_lines", scanning)
    for record in known:
        assert find_trial(copied, record.name) == record
    assert len(known) == 100
    assert scanned == []
    with pytest.raises(RunError, match="no trial 'a/clean/t-0/99'"):
        find_trial(copied, "a/clean/t-0/99")
    assert scanned == [copied]


def test_a_damaged_line_is_not_shown_by_the_index(copied, monkeypatch):
    monkeypatch.setattr(finding, "MAX_SCANNED", 0)
    trials = copied / TRIALS
    trials.write_bytes(trials.read_bytes().replace(b'"steps":2', b'"steps":1', 1))
    with pytest.raises(RunError, match=r"trials.jsonl:3: its checksum does not fit"):
        find_trial(copied, SOME[2].name)
    assert find_trial(copied, SOME[1].name) == SOME[1]


def test_an_index_that_cannot_be_written_costs_no_trial(tmp_path, patched, monkeypatch):
    def full(file: FileIO, data: bytes, path: Path, **options: bool) -> None:
        if path.name == INDEX:
            raise DiskError("No space left on device")
        append_whole(file, data, path, **options)

    monkeypatch.setattr(index_writer, "append_whole", full)
    write(tmp_path, SOME)
    assert not (tmp_path / INDEX).exists()
    assert list(read_records(tmp_path)) == SOME
