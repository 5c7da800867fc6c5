"""A changed byte of an artefact is noticed, named by its file and, where it has lines, by its line; it never counts in silence."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.models.cassettes import RECORD, ask, use
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.models.cassette import Recording
from whichloop.models.fake import FakeModel
from whichloop.protocol import read_program
from whichloop.protocol.digest import seal_document
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.run_state import read_records
from whichloop.runs.store.each_record import find_trial
from whichloop.runs.store.files import MANIFEST, TRACES, TRIALS, RunError
from whichloop.runs.store.journal import Journal
from whichloop.runs.store.traces import Traces

PROGRAM, RECORDING = "optimized.json", "m.jsonl"
FLIPS = 10_000


def all_traces(folder: Path) -> list[Any]:
    traces = Traces(folder)
    return [traces.read(record) for record in read_records(folder)]


READERS: Mapping[str, Callable[[Path], Any]] = {
    MANIFEST: read_manifest,
    TRIALS: read_records,
    TRACES: all_traces,
    PROGRAM: lambda folder: read_program(folder / PROGRAM),
    RECORDING: lambda folder: list(Recording(folder, "m")),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two trials, and beside it one artefact of each other kind."""
    runs = tmp_path_factory.mktemp("runs")
    config = CompareConfig(loops=("bare",), suite="arithmetic", tasks=2, runs=runs, mlflow=False)
    experiment = prepare(config)
    assert not run(experiment, Unwatched())
    folder = experiment.folder
    program = {"decide": {"signature": {"instructions": "Guess."}, "demos": [{"a": 1.5}]}, "whichloop": {"loop": "bare"}}
    (folder / PROGRAM).write_bytes(seal_document((json.dumps(program, indent=2) + "\n").encode()))
    use(folder, RECORD, [ask("one"), ask("two")], FakeModel("first", "second"))
    return folder


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_every_changed_byte_is_noticed_and_named(small: Path, tmp_path: Path, name: str, step: int):
    """Every 29th, and all at both ends; slow tests change each. 29, so that it is not the same bit of all of them."""
    for each in (MANIFEST, TRIALS, TRACES, name):
        (tmp_path / each).write_bytes((small / each).read_bytes())
    READERS[name](tmp_path)
    raw = (small / name).read_bytes()
    for place in sorted({*range(0, len(raw), step), *range(32), *range(len(raw) - 32, len(raw))}):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << place % 8
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=name) as caught:
            READERS[name](tmp_path)
        assert "\n" not in str(caught.value)
        if name.endswith(".jsonl"):
            line = raw.count(b"\n", 0, place) + 1
            assert f"{name}:{line}: " in str(caught.value)


def test_a_damaged_line_is_noticed_when_another_trial_is_looked_for_and_before_the_run_goes_on(small: Path, tmp_path: Path):
    raw = bytearray((small / TRIALS).read_bytes())
    wanted = read_records(small)[0].name
    raw[-1] ^= 1
    (tmp_path / TRIALS).write_bytes(raw)
    with pytest.raises(RunError, match=TRIALS):
        find_trial(tmp_path, wanted)
    with pytest.raises(RunError, match=TRIALS):
        Journal(tmp_path)
    assert (tmp_path / TRIALS).read_bytes() == raw


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_ten_thousand_random_bits_of_a_large_run_are_all_noticed(tmp_path: Path):
    config = CompareConfig(loops=("bare",), suite="arithmetic(size=600)", profiles=("flaky-tools",), runs=tmp_path, mlflow=False)
    experiment = prepare(config)
    assert not run(experiment, Unwatched())
    names = (MANIFEST, TRIALS, TRACES)
    whole = {name: (experiment.folder / name).read_bytes() for name in names}
    frames = {record.trace_at[:2]: record for record in read_records(experiment.folder) if record.trace_at is not None}
    draw = random.Random(19)
    for name in draw.choices(names, [len(whole[name]) for name in names], k=FLIPS):
        damaged = bytearray(whole[name])
        place = draw.randrange(len(damaged))
        damaged[place] ^= 1 << draw.randrange(8)
        (experiment.folder / name).write_bytes(damaged)
        # Of all frames only the damaged one is read.
        hit = [record for (start, length), record in frames.items() if name == TRACES and start <= place < start + length]
        reader = partial(Traces(experiment.folder).read, *hit) if hit else partial(READERS[name], experiment.folder)
        with pytest.raises(RunError, match=name):
            reader()
        (experiment.folder / name).write_bytes(whole[name])
