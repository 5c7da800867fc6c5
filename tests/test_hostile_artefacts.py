"""Artefacts that an attacker made: whatever they hold, a reader reads them or says in one line what is wrong, and takes little."""

from __future__ import annotations

import copy
import gzip
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.experiments.gate import bless, read_baseline, read_run, write_baseline
from loopbench.experiments.optimize.program_text import program_named
from loopbench.models.cassette import Recording
from loopbench.models.fake import FakeModel
from loopbench.models.profiles import load_profile
from loopbench.protocol.checksums import open_document, open_line
from loopbench.runs.config import MAX_REPEATS, CompareConfig, load_config
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.run_state import read_state
from loopbench.runs.store.files import MANIFEST, TRACES, TRIALS, RunError
from loopbench.runs.store.journal import Journal
from loopbench.runs.store.records import read_records
from loopbench.runs.store.traces import MAX_TEXT, Traces, TraceWriter
from tests.models.cassettes import RECORD, ask, use
from tests.sealing import reseal

BASELINE, PROGRAM, RECORDING, CONFIG, PROFILE = "baseline.json", "optimized.json", "m.jsonl", "config.toml", "own.toml"
FEW, MANY = 60, 20_000
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read_run_whole(folder: Path) -> object:
    """Read a run as the report does."""
    read_state(folder)
    found = results(folder)
    return found.to_json(), found.title, found.digest


READERS: Mapping[str, Callable[[Path], object]] = {
    MANIFEST: read_run_whole,
    TRIALS: read_run_whole,
    TRACES: lambda folder: [Traces(folder).read(record) for record in read_records(folder)],
    BASELINE: lambda folder: read_baseline(folder / BASELINE),
    PROGRAM: lambda folder: program_named(str(folder / PROGRAM)).to_json(),
    RECORDING: lambda folder: list(Recording(folder, "m")),
    CONFIG: lambda folder: load_config(folder / CONFIG, {}),
    PROFILE: lambda folder: load_profile(str(folder / PROFILE)).digest,
}


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one artefact of each kind."""
    runs = tmp_path_factory.mktemp("runs")
    experiment = prepare(CompareConfig(loops=("bare", "finish"), suite="arithmetic", tasks=2, runs=runs, mlflow=False))
    assert not run(experiment, Unwatched())
    folder = experiment.folder
    write_baseline(folder / BASELINE, bless(read_run(folder)))
    program = {"decide": {"signature": {"instructions": "Guess."}, "demos": [{"a": 1.5}]}, "loopbench": {"loop": "bare"}}
    (folder / PROGRAM).write_text(json.dumps(program))
    reseal(folder / PROGRAM)
    use(folder, RECORD, [ask("one"), ask("two")], FakeModel("first", "second"))
    (folder / CONFIG).write_text('loops = ["bare"]\nrepeats = 2\nalpha = 0.1\n[budget]\ncalls = 5\n')
    (folder / PROFILE).write_text('name = "own"\nlatency_s = 1.0\n[rates]\n"wire.empty" = 0.1\n[clears]\nattempts = 2\n')
    return folder


@pytest.fixture
def copied(artefacts: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(artefacts, folder)
    return folder


def refused(name: str, folder: Path) -> str:
    """Return the one line with which an artefact is refused."""
    with pytest.raises((ValueError, OSError), match=name) as caught:
        READERS[name](folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- the attacks of the outside audit ---


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("margin", value) for value in (math.nan, math.inf, 0, -1, 10**400)),
        *(("alpha", value) for value in (math.nan, 0, -0.1, 1, 10**400)),
        *(("repeats", value) for value in (MAX_REPEATS + 1, 5_000_000, 10**400, 0, -1)),
        *(("tasks", value) for value in (10**400, -1)),
        ("budget", {"calls": 10**400}),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_every_reader_of_the_run(copied: Path, setting: str, value: Any):
    manifest = json.loads(open_document((copied / MANIFEST).read_bytes()))
    manifest["config"][setting] = value
    (copied / MANIFEST).write_text(json.dumps(manifest))
    reseal(copied / MANIFEST)
    refused(MANIFEST, copied)


@pytest.mark.parametrize("value", [10**400, -(10**400), -(10**20), math.inf, math.nan, "1", True, [1]])
@pytest.mark.parametrize("name", ["input_tokens", "steps", "tool_calls", "cost_usd", "started_at", "attempt", "seed", "confidence"])
def test_a_number_out_of_bounds_is_refused_with_its_line(copied: Path, name: str, value: Any):
    line = json.loads((copied / TRIALS).read_bytes().splitlines()[0]) | {name: value}
    (copied / TRIALS).write_text(json.dumps(line) + "\n")
    reseal(copied / TRIALS)
    assert f"{TRIALS}:1: " in refused(TRIALS, copied)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "folder"])
def test_what_is_not_a_regular_file_is_never_read(copied: Path, name: str, target: str):
    os.mkfifo(copied / "pipe")
    (copied / "folder").mkdir()
    (copied / name).unlink()
    (copied / name).symlink_to(target)
    if name == RECORDING:
        assert READERS[name](copied) == []  # only a regular file is a recording
    else:
        refused(name, copied)
    if name == TRIALS:
        with pytest.raises(RunError, match=TRIALS):
            Journal(copied)


@pytest.mark.parametrize("name", [MANIFEST, TRIALS, BASELINE, PROGRAM, RECORDING, CONFIG, PROFILE])
def test_a_file_without_an_end_in_sight_is_not_read_to_its_end(copied: Path, name: str):
    with (copied / name).open("wb") as file:
        file.truncate(1 << 36)  # of zeros, which take no room on the disk
    refused(name, copied)


def test_a_frame_that_expands_beyond_the_bound_is_not_expanded(copied: Path):
    """What a frame says of its size is checked first, and what it expands to never becomes more."""
    record = read_records(copied)[0]
    whole = zstandard.ZstdCompressor().compress(b"[]," * (MAX_TEXT // 2))
    writer = zstandard.ZstdCompressor(write_content_size=False)
    for frame in (whole, writer.compress(b"[]," * (MAX_TEXT // 2))):
        (copied / TRACES).write_bytes(frame)
        place = [0, len(frame), 0, 10, crc32(frame)]
        (copied / TRIALS).write_text(json.dumps(record.to_json() | {"trace_at": place}) + "\n")
        reseal(copied / TRIALS)
        assert "at most" in refused(TRACES, copied)


def test_a_packed_recording_that_expands_beyond_the_bound_is_not_expanded(copied: Path):
    line = (copied / RECORDING).read_bytes().splitlines(keepends=True)[-1]
    (copied / RECORDING).unlink()
    with gzip.open(copied / f"{RECORDING}.gz", "wb") as file:
        for _ in range(80):
            file.write(line * ((1 << 20) // len(line)))
    refused(RECORDING, copied)


# --- whatever the structure holds ---

NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1, 0, 10**400, -(10**400), 2**63, 5_000_000, 0.5, 1e-320])
TOML_VALUES = ("nan", "inf", "-1", "0", "1e308", "9" * 400, "9" * 5_000, "[[1]]", "{}", '""', "true", '"x"', "'")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["../x", "\ud800", "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where something stands in a JSON value."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [path, *(place for name, item in items for place in places(item, (*path, name)))]


def mutated(draw: Callable[..., Any], value: Any) -> Any:
    """Change, remove or add something at some places of a JSON value."""
    changed = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(changed)[1:] or [()]))
        if not place:
            return changed
        inside = changed
        for name in place[:-1]:
            inside = inside[name]
        action = draw(st.sampled_from(["change", "change", "remove", "copy"]))
        if action == "remove":
            del inside[place[-1]]
        elif action == "copy" and isinstance(inside, list):
            inside.append(inside[place[-1]])
        else:
            inside[place[-1]] = draw(VALUES)
    return changed


def mutate_lines(draw: Callable[..., Any], path: Path) -> None:
    lines: list[Any] = [json.loads(open_line(line)) for line in path.read_bytes().splitlines(keepends=True)]
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = mutated(draw, lines[place])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reseal(path)


def mutate_traces(draw: Callable[..., Any], path: Path) -> None:
    """Change a trace, and write all traces anew, so that only the reader of a trace can notice."""
    records = read_records(path.parent)
    kept = [trace.to_json() for trace in map(Traces(path.parent).read, records)]
    kept[0] = mutated(draw, kept[0])
    writer = TraceWriter(path, 0)
    at = writer.append([json.dumps(each).encode() + b"\n" for each in kept])
    writer.close()
    (path.parent / TRIALS).write_bytes(b"".join(record.line(place) for record, place in zip(records, at, strict=True)))


def mutate_document(draw: Callable[..., Any], path: Path) -> None:
    path.write_text(json.dumps(mutated(draw, json.loads(open_document(path.read_bytes())))))
    reseal(path)


def mutate_toml(draw: Callable[..., Any], path: Path) -> None:
    lines = path.read_text().splitlines()
    place = draw(st.sampled_from([number for number, line in enumerate(lines) if "=" in line]))
    value = draw(
        st.sampled_from(["nan", "inf", "-1", "0", "1e308", "9" * 400, "9" * 5_000, "[[1]]", "{}", '""', "true", '"x"', "'"])
    )
    lines[place] = f"{lines[place].partition('=')[0]}= {value}"
    path.write_text("\n".join(lines) + "\n")


MUTATIONS: Mapping[str, Callable[[Callable[..., Any], Path], None]] = {
    MANIFEST: mutate_document,
    TRIALS: mutate_lines,
    TRACES: mutate_traces,
    BASELINE: mutate_document,
    PROGRAM: mutate_document,
    RECORDING: mutate_lines,
    CONFIG: mutate_toml,
    PROFILE: mutate_toml,
}


def check_mutations(artefacts: Path, folder: Path, name: str, draw: Callable[..., Any]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(artefacts, folder)
    MUTATIONS[name](draw, folder / name)
    said = ""
    try:
        READERS[name](folder)
    except (ValueError, OSError) as error:
        said = str(error)
    assert said == "" or str(folder) in said, said
    assert "\n" not in said
    assert len(said) < 2_000


@pytest.mark.parametrize("name", READERS)
@settings(SHARED, max_examples=FEW)
@given(data=st.data())
def test_a_mutated_artefact_is_read_or_refused_in_one_line(artefacts: Path, tmp_path: Path, name: str, data: st.DataObject):
    check_mutations(artefacts, tmp_path / "mutated", name, data.draw)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", READERS)
@settings(SHARED, max_examples=MANY)
@given(data=st.data())
def test_many_mutated_artefacts_are_read_or_refused_in_one_line(artefacts: Path, tmp_path: Path, name: str, data: st.DataObject):
    check_mutations(artefacts, tmp_path / "mutated", name, data.draw)
