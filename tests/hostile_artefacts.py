"""One artefact of each kind, its reader, and ways to change it that its writer never would."""

from __future__ import annotations

import copy
import json
import math
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from tests.kept import put
from tests.models.recordings import ask, use
from tests.sealing import reseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.gate import bless, read_baseline, read_run, write_baseline
from whichloop.experiments.optimize.candidates import program_json
from whichloop.experiments.optimize.program_text import program_named
from whichloop.models.fake import FakeModel
from whichloop.models.profiles import load_profile
from whichloop.models.recording import Recordings
from whichloop.protocol.json_text import unseal
from whichloop.runs.config import CompareConfig, load_config
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.schedule import read_state
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store.trials import GUARDED, OWN, TRIALS, Traces, read_records

BASELINE, PROGRAM, RECORDING, CONFIG, PROFILE = "baseline.json", "optimized.json", "m.jsonl", "config.toml", "own.toml"


TRACES = "traces"
"""Not a file: the traces in that of the trials."""


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
    PROGRAM: lambda folder: program_json(program_named(str(folder / PROGRAM))[0]),
    RECORDING: lambda folder: Recordings(folder, "replay").of("m"),
    CONFIG: lambda folder: load_config(folder / CONFIG, {}),
    PROFILE: lambda folder: load_profile(str(folder / PROFILE)).digest,
}


def make_artefacts(runs: Path) -> Path:
    """Return a folder with one artefact of each kind."""
    experiment = prepare(CompareConfig(loops=("bare", "finish"), suite="arithmetic", tasks=2, runs=runs, mlflow=False))
    assert not run(experiment, Unwatched())
    folder = experiment.folder
    write_baseline(folder / BASELINE, bless(read_run(folder)))
    program = {"decide": {"signature": {"instructions": "Guess."}, "demos": [{"a": 1.5}]}, "whichloop": {"loop": "bare"}}
    (folder / PROGRAM).write_text(json.dumps(program))
    reseal(folder / PROGRAM)
    use(folder, "record", [ask("one"), ask("two")], FakeModel("first", "second"))
    (folder / CONFIG).write_text('loops = ["bare"]\nrepeats = 2\nalpha = 0.1\n[budget]\ncalls = 5\n')
    (folder / PROFILE).write_text('name = "own"\nlatency_s = 1.0\n[rates]\n"wire.empty" = 0.1\n[clears]\nattempts = 2\n')
    return folder


# --- whatever the structure holds ---

NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1, 0, 10**400, -(10**400), 2**63, 5_000_000, 0.5, 1e-320])
TOML_VALUES = ("nan", "inf", "-1", "0", "1e308", "9" * 400, "9" * 5_000, "[[1]]", "{}", '""', "true", '"x"', "'")
HEAVY: Mapping[str, str] = {
    "<deep>": "[" * 100_000 + "]" * 100_000,
    "<deep object>": '{"a":' * 900 + "1" + "}" * 900,
    "<digits>": "9" * 5_000,
    "<wide>": json.dumps({f"name {number}": number for number in range(100_000)}),
    "<long>": json.dumps([0] * 1_000_000),
    "<text>": json.dumps("x" * 8_000_000),
    "<exponent>": "1e999999999",
}
"""A text that stands for it → JSON that takes long to read, or much memory."""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["../x", "\ud800", "\n"])
    | st.sampled_from(list(HEAVY)),
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


def heavy(text: str) -> str:
    """Put what is heavy in the place of the texts that stand for it."""
    for name, value in HEAVY.items():
        text = text.replace(json.dumps(name), value)
    return text


def mutate_lines(draw: Callable[..., Any], path: Path) -> None:
    lines: list[Any] = [json.loads(line) for line in path.read_bytes().splitlines()]
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = mutated(draw, lines[place])
    path.write_text("".join(heavy(json.dumps(line)) + "\n" for line in lines))


def mutate_records(draw: Callable[..., Any], path: Path) -> None:
    """Change what trials have in common, with a checksum that fits."""
    with closing(sqlite3.connect(path)) as db:
        kinds = db.execute("SELECT kind, record FROM kinds").fetchall()
        kind, record = draw(st.sampled_from(kinds))
        text = heavy(json.dumps(mutated(draw, json.loads(record))))
        db.execute("UPDATE kinds SET record = ?, crc = ? WHERE kind = ?", (text, crc32(text.encode()), kind))
        for number, *own in db.execute(f"SELECT number, {', '.join(OWN)} FROM trials WHERE kind = ?", (kind,)).fetchall():
            guard = crc32(GUARDED.pack(number, kind, *own, crc32(text.encode())))
            db.execute("UPDATE trials SET crc = ? WHERE number = ?", (guard, number))
        db.commit()


def mutate_traces(draw: Callable[..., Any], path: Path) -> None:
    """Change a trace, and write all traces anew, so that only the reader of a trace can notice."""
    records = list(read_records(path.parent))
    kept = [trace.to_json() for trace in map(Traces(path.parent).read, records)]
    kept[0] = mutated(draw, kept[0])
    put(path.parent, records, [heavy(json.dumps(each)).encode() + b"\n" for each in kept])


def mutate_document(draw: Callable[..., Any], path: Path) -> None:
    path.write_text(heavy(json.dumps(mutated(draw, json.loads(unseal(path.read_bytes()))))))
    reseal(path)


def mutate_baseline(draw: Callable[..., Any], path: Path) -> None:
    path.write_text(heavy(json.dumps(mutated(draw, json.loads(path.read_bytes())))))


def mutate_toml(draw: Callable[..., Any], path: Path) -> None:
    lines = path.read_text().splitlines()
    place = draw(st.sampled_from([number for number, line in enumerate(lines) if "=" in line]))
    value = draw(st.sampled_from(TOML_VALUES))
    lines[place] = f"{lines[place].partition('=')[0]}= {value}"
    path.write_text("\n".join(lines) + "\n")


MUTATIONS: Mapping[str, Callable[[Callable[..., Any], Path], None]] = {
    MANIFEST: mutate_document,
    TRIALS: mutate_records,
    TRACES: mutate_traces,
    BASELINE: mutate_baseline,
    PROGRAM: mutate_document,
    RECORDING: mutate_lines,
    CONFIG: mutate_toml,
    PROFILE: mutate_toml,
}


def check_mutations(artefacts: Path, folder: Path, name: str, draw: Callable[..., Any]) -> None:
    """Change an artefact, and read it: what its reader says is one line that names the folder, or nothing."""
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
