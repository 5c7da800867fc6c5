"""The compressed traces: each is read by itself, nothing in the file is trusted, and what was not kept is said to be missing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.gate.baseline import bless
from whichloop.experiments.learn_plans.learn import learn_run
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.reports.html.page import report_html
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.run_state import read_records
from whichloop.runs.store.each_record import find_trial
from whichloop.runs.store.files import TRACES, TRIALS, RunError, write_manifest_json
from whichloop.runs.store.journal import Journal
from whichloop.runs.store.traces import (
    FRAME_BYTES,
    FRAME_TRACES,
    MAX_TEXT,
    TracePolicy,
    Traces,
    TracesSize,
    TraceWriter,
    read_trace,
)


def line_of(record: Record, pad: str = "") -> bytes:
    head = {"arm": record.arm, "task": record.task, "repeat": record.repeat, "events": [{"event": "note", "pad": pad}]}
    return (json.dumps(head) + "\n").encode()


def trace_of(record: Record, pad: str = "") -> Trace:
    return Trace.from_json(json.loads(line_of(record, pad)))


def noise(size: int, seed: int = 0) -> str:
    """Text that cannot be compressed."""
    return random.Random(seed).randbytes(size // 2).hex()


def place(record: Record) -> tuple[int, ...]:
    """Where its trace stands."""
    assert record.trace_at is not None
    return record.trace_at


def write(folder: Path, records: list[Record], pads: list[str] | None = None) -> list[Record]:
    """Traces as a journal writes them; the records with their places."""
    writer = TraceWriter(folder / TRACES, 0)
    lines = [line_of(each, pad) for each, pad in zip(records, pads or [""] * len(records), strict=True)]
    placed = [replace(each, trace_at=at) for each, at in zip(records, writer.append(lines), strict=True)]
    writer.close()
    return placed


# --- frames ---


@settings(max_examples=cases(15))
@given(st.lists(st.integers(0, FRAME_BYTES * 2), max_size=6), st.integers(0, 150), st.randoms())
def test_every_trace_is_read_back_from_its_frame_in_any_order(tmp_path_factory, record, long, short, order):
    folder = tmp_path_factory.mktemp("run")
    sizes = [*long, *[10] * short]
    order.shuffle(sizes)
    made = write(folder, [record(task=f"t{number}") for number in range(len(sizes))], ["x" * size for size in sizes])
    frames: dict[tuple[int, ...], list[int]] = {}
    for each in made:
        frames.setdefault(place(each)[:2], []).append(place(each)[3])
    for lengths in frames.values():
        assert len(lengths) <= FRAME_TRACES
        assert len(lengths) == 1 or sum(lengths) <= FRAME_BYTES
    order.shuffle(made)
    traces = Traces(folder)
    for each in made:
        assert traces.read(each) == read_trace(folder, each) == trace_of(each, "x" * sizes[int(each.task[1:])])


def test_one_trace_of_many_opens_one_frame(tmp_path, record):
    made = write(tmp_path, [record(task=f"t{number}") for number in range(1000)], [noise(2_000, number) for number in range(1000)])
    raw = bytearray((tmp_path / TRACES).read_bytes())
    wanted = made[500]
    offset, length = place(wanted)[:2]
    assert length < len(raw) / 5
    raw[:offset], raw[offset + length :] = b"\0" * offset, b"\0" * (len(raw) - offset - length)
    (tmp_path / TRACES).write_bytes(raw)
    assert read_trace(tmp_path, wanted).head.task == "t500"
    with pytest.raises(RunError):
        read_trace(tmp_path, made[0])


def test_traces_that_stand_side_by_side_are_expanded_once(tmp_path, record):
    """The file is taken away once each frame was opened."""
    made = write(tmp_path, [record(task=f"t{number}") for number in range(300)])
    traces = Traces(tmp_path)
    for at in {place(each)[:2]: each for each in made}.values():
        traces.read(at)
    (tmp_path / TRACES).unlink()
    assert [traces.read(each).head.task for each in made] == [each.task for each in made]


def test_a_reader_holds_no_more_than_some_frames(tmp_path, record, monkeypatch):
    monkeypatch.setattr("whichloop.runs.store.traces.MAX_FRAMES_BYTES", 3 * FRAME_BYTES)
    made = write(tmp_path, [record(task=f"t{number}") for number in range(40)], [noise(FRAME_BYTES, n) for n in range(40)])
    traces = Traces(tmp_path)
    for each in made:
        traces.read(each)
    (tmp_path / TRACES).unlink()
    traces.read(made[-1])
    with pytest.raises(RunError, match="No such file"):
        traces.read(made[0])


# --- files from anywhere ---


@pytest.fixture
def three(tmp_path, record) -> list[Record]:
    """Of a folder with three traces, in two frames."""
    return write(tmp_path, [record(task=f"t{number}") for number in range(3)], ["", "x" * FRAME_BYTES, ""])


def test_a_trace_that_is_not_there_is_said_to_be_missing(tmp_path, three, record):
    first, second, _ = three
    offset, length, start, size, checksum = first.trace_at
    for damaged, said in [
        (record(task="t0", status="excluded", reason="no plan"), "trial a/t0/0 has no trace: no plan"),
        (record(task="t0"), "has no trace: none was recorded"),
        (record(task="t0", trace_at=second.trace_at), "is that of another trial"),
        (record(task="t0", trace_at=(offset + 1, length, start, size, checksum)), "at 1"),
        (record(task="t0", trace_at=(offset, length - 1, start, size, checksum)), "at 0"),
        (record(task="t0", trace_at=(offset, length + 1, start, size, checksum)), "at 0"),
        (record(task="t0", trace_at=(offset, length, start + 1, size, checksum)), "at 0"),
        (record(task="t0", trace_at=(offset, length, start, 10**15, checksum)), "beyond the end of the frame's text"),
        (record(task="t0", trace_at=(offset, 10**15, start, size, checksum)), "beyond the end of the file"),
        (record(task="t0", trace_at=(10**30, 5, 0, 5, 0)), "beyond the end of the file"),
        (record(task="t0", trace_at=(-1, 5, 0, 5, 0)), "at -1: this is not a place in a file"),
        (record(task="t0", trace_at=(0, 0, 0, 0, 0)), "at 0"),
        (record(task="t0", trace_at=("x", 5, 0, 5, 0)), "at x: this is not a place in a file"),
        (record(task="t0", trace_at=(0, True, 0, 5, 0)), "this is not a place in a file"),
        (record(task="t0", trace_at=(0, 5)), "at 0: this is not a place in a file"),
    ]:
        with pytest.raises(RunError, match=said) as caught:
            read_trace(tmp_path, damaged)
        assert "\n" not in str(caught.value)


def compressed(text: bytes, **settings: Any) -> bytes:
    return zstandard.ZstdCompressor(**settings).compress(text)


def grown(frame: bytes) -> bytes:
    """A frame that says it holds twice as much."""
    assert frame[4] == 0x60  # one segment, its size in the two bytes that follow, less 256
    size = int.from_bytes(frame[5:7], "little") + 256
    return frame[:5] + (2 * size - 256).to_bytes(2, "little") + frame[7:]


@pytest.mark.parametrize(
    "frame",
    [
        compressed(bytes(MAX_TEXT + 1)),
        compressed(b"{}" * 1000, write_content_size=False),
        grown(compressed(b"{}" * 500, write_checksum=False)),
        b"",
        b"{}" * 20,
        b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd",  # a frame that is to be skipped
        compressed(b""),
        compressed(b"{}\n") + compressed(b"{}\n"),
        compressed(b"[" * 10_000),
        compressed(b"\xff\n"),
        compressed(b"NaN\n"),
    ],
    ids=["bomb", "untold", "liar", "empty", "text", "skippable", "nothing", "two", "deep", "latin", "nan"],
)
def test_a_frame_that_is_none_or_would_fill_the_memory_is_one_line(tmp_path, record, frame):
    (tmp_path / TRACES).write_bytes(frame)
    for length in (2, 10_000):
        with pytest.raises(RunError, match="at 0") as caught:
            read_trace(tmp_path, record(trace_at=(0, len(frame), 0, length, crc32(frame))))
        assert "\n" not in str(caught.value)


@settings(max_examples=cases(75))
@given(st.data())
def test_damaged_files_give_what_was_written_or_one_line(tmp_path_factory, record, data):
    """A frame bears a checksum, so that no other trace is read out of a damaged one."""
    folder = tmp_path_factory.mktemp("run")
    made = [record(task=f"t{number}") for number in range(3)]
    with Journal(folder) as journal:
        for each in made:
            journal.append(each, line_of(each, noise(200)))
    name = data.draw(st.sampled_from([TRIALS, TRACES]))
    raw = bytearray((folder / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 10**6)) % (len(raw) or 1)
        until = at + data.draw(st.integers(0, 5))
        raw[at:until] = data.draw(st.binary(max_size=5))
    (folder / name).write_bytes(raw)

    refused: list[str] = []

    def told(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except RunError as error:
            refused.append(str(error))

    for found in told(lambda: read_records(folder)) or ():
        trace = told(partial(Traces(folder).read, found))
        assert trace is None or trace == trace_of(record(task=trace.head.task), noise(200))
    told(lambda: find_trial(folder, "t1"))
    told(lambda: results(folder))
    told(lambda: Journal(folder).close())
    assert not any("\n" in line for line in refused)


# --- which are kept ---

CELLS = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 3)), unique=True, max_size=30)


@given(CELLS, st.integers(1, 40), st.integers(), st.randoms())
def test_a_sample_is_that_of_so_many_cells_for_all_arms_and_in_any_order(record, cells, size, seed, order):
    kept = TracePolicy.of(f"sample={size}", cells, seed)
    assert len(kept.cells) == min(size, len(cells))
    shuffled = list(cells)
    order.shuffle(shuffled)
    assert TracePolicy.of(f"sample={size}", shuffled, seed) == kept
    for task, repeat in cells:
        asked = {kept.keeps(record(arm=arm, task=task, repeat=repeat, scores={"accuracy": 0.0})) for arm in ("a", "b")}
        assert asked == {(task, repeat) in kept.cells}


@given(CELLS, st.integers(1, 10), st.integers(), st.data())
def test_where_cells_are_added_no_new_one_of_the_old_is_drawn(cells, size, seed, data):
    """So that a run which is extended has all traces of its new sample that can be had."""
    before = data.draw(st.lists(st.sampled_from(cells), unique=True)) if cells else []
    old, new = (TracePolicy.of(f"sample={size}", part, seed).cells for part in (before, cells))
    assert new & set(before) <= old


def test_failures_are_what_did_not_solve_its_task(record):
    kept = TracePolicy.of("failures", (), 0)
    assert not kept.keeps(record())
    assert kept.keeps(record(scores={"accuracy": 0.5}))
    assert kept.keeps(record(status="errored", scores={}))
    assert not any(TracePolicy.of("none", (), 0).keeps(record(scores={"accuracy": score})) for score in (0.0, 1.0))


def ran(folder: Path, traces: str, **config: Any) -> Results:
    loops, profiles = ("bare", "react_extract"), ("flaky-format",)
    settings = {"loops": loops, "profiles": profiles, "suite": "arithmetic(size=8)", "repeats": 2} | config
    experiment = prepare(CompareConfig(runs=folder, mlflow=False, traces=traces, **settings))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Results:
    """A run that kept all traces."""
    return ran(tmp_path_factory.mktemp("all"), "all")


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("failures"), "failures")


@pytest.fixture(scope="module")
def some(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("sample"), "sample=5", concurrency=3)


@pytest.fixture(scope="module")
def untraced(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("none"), "none")


def traced(found: Results) -> set[tuple[str, str, int]]:
    return {record.key for record in found.records if record.trace_at is not None}


def test_what_is_kept_changes_no_result(whole, failures, some, untraced):
    assert len({found.digest for found in (whole, failures, some, untraced)}) == 1
    assert traced(whole) == {record.key for record in whole.records}
    assert traced(failures) == {record.key for record in whole.records if record.accuracy < 1}
    assert traced(untraced) == set()
    assert not (untraced.folder / TRACES).exists()
    cells = {(task, repeat) for _, task, repeat in traced(some)}
    assert traced(some) == {record.key for record in whole.records if (record.task, record.repeat) in cells}
    assert len(cells) == 5
    for found in (whole, failures, some):
        for record in found.records:
            if record.key in traced(found):
                assert read_trace(found.folder, record).head.task == record.task


def test_a_trace_that_was_not_kept_is_said_not_to_have_been(failures, some, untraced):
    for found, said in [
        (failures, "the run kept traces of failures only (-s traces=failures)"),
        (some, "it is none of those drawn to be kept (-s traces=sample=5)"),
        (untraced, "the run kept none (-s traces=none)"),
    ]:
        record = next(record for record in found.records if record.trace_at is None)
        with pytest.raises(RunError) as caught:
            read_trace(found.folder, record)
        assert str(caught.value) == f"{found.folder}: trial {record.name} has no trace: {said}"


def test_losses_are_told_from_failures_alone(whole, failures):
    """The trials that were solved, to hold them against, were not kept."""
    reasons = losses_explained(failures)
    assert not any(pair.divergences for pair in reasons.pairs)
    assert reasons.untraced == 0
    assert [arm.lost for arm in reasons.arms] == [arm.lost for arm in losses_explained(whole).arms]
    assert all(sum(arm.causes.values()) == arm.lost for arm in reasons.arms)
    assert "<h2>Why trials were lost</h2>" in report_html(failures)


def test_a_page_is_made_whatever_was_kept(some, untraced):
    assert "lost trials: the step is not known" in report_html(some)
    assert "lost trials: the step is not known" in report_html(untraced)


def test_rates_are_not_fitted_to_failures_alone(whole, failures, some, untraced):
    with pytest.raises(RunError, match="only the traces of failures were kept"):
        fit_run(failures.folder)
    with pytest.raises(RunError, match="no traces to fit"):
        fit_run(untraced.folder)
    assert fit_run(some.folder).trials == len(traced(some))
    assert fit_run(whole.folder).trials == len(whole.records)


def test_plans_are_learned_from_the_traces_there_are(some, failures, untraced):
    for found in (failures, untraced):
        learned = learn_run(found.folder)
        assert all(
            f"solved in {found.folder.name}, but no trace of that was kept" in why_not for why_not in learned.not_learned.values()
        )
    learned = learn_run(some.folder)
    solved = {record.task for record in some.records if record.accuracy == 1 and record.trace_at is not None}
    assert {lesson.task for lesson in learned.lessons} == solved


def test_a_baseline_is_blessed_without_traces(whole, untraced, failures):
    assert not any(line.course for arm in bless(untraced).arms.values() for line in arm.tasks.values())
    assert bless(failures).arms.keys() == bless(whole).arms.keys()


# --- how much they take ---


def test_what_traces_take_is_told(whole, untraced):
    size = whole.traces
    assert size.kept == len(whole.records)
    assert size.bytes == (whole.folder / TRACES).stat().st_size
    with (
        (whole.folder / TRACES).open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text,
    ):
        assert size.text_bytes == len(text.read())
    assert whole.to_json()["traces"] == {"kept": size.kept, "bytes": size.bytes, "text_bytes": size.text_bytes}
    assert untraced.to_json()["traces"] == {"kept": 0, "bytes": 0, "text_bytes": 0}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (TracesSize(0, 0, 0), "traces: none"),
        (
            TracesSize(100_000, 41_200_000, 310_000_000),
            "traces: 412 B per kept trial on disk (3.1 KB before compression), 41.2 MB in all",
        ),
        (TracesSize(1, 999, 1000), "traces: 999 B per kept trial on disk (1.0 KB before compression), 999 B in all"),
        (TracesSize(1, 5, 3_000_000_000), "traces: 5 B per kept trial on disk (3.0 GB before compression), 5 B in all"),
    ],
)
def test_sizes_are_told_in_words(size, said):
    assert str(size) == said


def test_of_an_imported_trial_without_a_trace_it_says_what_is_known(tmp_path, record):
    write_manifest_json(tmp_path, {"config": {}, "imported": {"from": [], "format": "csv"}})
    lost = record(scores={"accuracy": 0.0}, reason="ToolError: db down", stop="crashed")
    with pytest.raises(RunError, match=r"files hold none; it is scored 0 \(ToolError: db down; stop: crashed\)$"):
        read_trace(tmp_path, lost)
    with pytest.raises(RunError, match=r"files hold none; it is errored$"):
        read_trace(tmp_path, record(status="errored", stop=None))


def test_a_run_that_is_none_has_no_policy(tmp_path, record):
    write_manifest_json(tmp_path, {"config": {}})
    with pytest.raises(RunError, match="none was recorded"):
        read_trace(tmp_path, record())
