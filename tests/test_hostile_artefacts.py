"""Artefacts that an attacker made: whatever they hold, a reader reads them or says in one line what is wrong, and takes little."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.hostile_artefacts import (
    BASELINE,
    CONFIG,
    PROFILE,
    PROGRAM,
    READERS,
    RECORDING,
    TRACES,
    check_mutations,
    make_artefacts,
    mutate_records,
)
from tests.sealing import reseal
from whichloop.experiments.gate.baseline import bless, read_run
from whichloop.protocol.files import MAX_SETTINGS
from whichloop.protocol.json_text import unseal
from whichloop.runs.config import MAX_REPEATS
from whichloop.runs.store.files import MANIFEST, RunError
from whichloop.runs.store.trials import SUPER_JOURNAL, TRIALS, TrialWriter

FEW = cases(12)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_artefacts(tmp_path_factory.mktemp("runs"))


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


def rewrite_manifest(folder: Path, changes: Mapping[str, Any]) -> None:
    manifest = json.loads(unseal((folder / MANIFEST).read_bytes()))
    (folder / MANIFEST).write_text(json.dumps(manifest | changes | {"config": manifest["config"] | changes.get("config", {})}))
    reseal(folder / MANIFEST)


# --- the attacks of the outside audit ---


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("margin", (math.nan, math.inf, 0, -1, 10**400)),
        ("alpha", (math.nan, 0, -0.1, 1, 10**400)),
        ("repeats", (MAX_REPEATS + 1, 5_000_000, 10**400, 0, -1)),
        ("tasks", (10**400, -1)),
        ("budget", ({"calls": 10**400},)),
        ("trial_budget", ([None], {"calls": []}, {"dollars": "much"})),
        ("trial_timeout_s", (None, [], -1)),
        ("max_tool_steps", ([],)),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_every_reader_of_the_run(copied: Path, setting: str, values: tuple[Any, ...]):
    for value in values:
        rewrite_manifest(copied, {"config": {setting: value}})
        refused(MANIFEST, copied)


@pytest.mark.parametrize("name", ["input_tokens", "steps", "tool_calls", "cost_usd", "seconds", "confidence"])
def test_a_number_out_of_bounds_is_refused(copied: Path, name: str):
    for value in (10**400, -(10**400), -(10**20), math.inf, math.nan, "1", True, [1]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.hostile_artefacts.mutated", lambda _, record, value=value: record | {name: value})
            mutate_records(lambda kinds: kinds.elements[0], copied / TRIALS)
        assert f"{TRIALS}: kind 1: " in refused(TRIALS, copied)


@pytest.mark.parametrize("name", READERS.keys() - {TRACES})
@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "folder"])
def test_what_is_not_a_regular_file_is_never_read(copied: Path, name: str, target: str):
    os.mkfifo(copied / "pipe")
    (copied / "folder").mkdir()
    (copied / name).unlink()
    (copied / name).symlink_to(target)
    refused(name, copied)
    if name == TRIALS:
        with pytest.raises(RunError, match=TRIALS):
            TrialWriter(copied)


def test_what_a_run_names_as_files_of_its_loop_is_never_waited_for(copied: Path, monkeypatch: pytest.MonkeyPatch):
    """A baseline keeps digests of the lines of these files, so that blessing a run reads what its manifest names."""
    monkeypatch.chdir(copied)
    os.mkfifo("pipe.py")
    Path("huge.py").touch()
    os.truncate("huge.py", 1 << 36)
    named = dict.fromkeys(["pipe.py", str(copied / "pipe.py"), f"../{copied.name}/pipe.py", "huge.py", "/dev/zero"], "0" * 12)
    arms = json.loads(unseal((copied / MANIFEST).read_bytes()))["arms"]
    rewrite_manifest(copied, {"arms": [arm | {"files": named} for arm in arms]})
    new = bless(read_run(copied))
    assert {frozenset(arm.files) for arm in new.arms.values()} == {frozenset(named)}
    assert new.lines == {}


@pytest.mark.parametrize("name", [MANIFEST, TRIALS, BASELINE, PROGRAM, RECORDING, CONFIG, PROFILE])
def test_a_file_without_an_end_in_sight_is_not_read_to_its_end(copied: Path, name: str):
    with (copied / name).open("wb") as file:
        file.truncate(1 << 36)  # of zeros, which take no room on the disk
    refused(name, copied)


@pytest.mark.parametrize("name", [MANIFEST, CONFIG, PROFILE])
def test_so_many_values_that_saying_what_is_wrong_with_each_takes_long_are_not_checked(copied: Path, name: str):
    if name == MANIFEST:
        rewrite_manifest(copied, {"config": {"loops": [0] * (MAX_SETTINGS + 2)}})
    else:
        (copied / name).write_text(f"loops = {[0] * (MAX_SETTINGS + 2)}\n")
    assert f"more than {MAX_SETTINGS} values" in refused(name, copied)


def test_a_journal_never_removes_another_file(copied: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.write_text("kept")
    name = str(other).encode()
    counts = (1).to_bytes(4, "big"), len(name).to_bytes(4, "big"), sum(name).to_bytes(4, "big")
    (copied / f"{TRIALS}-journal").write_bytes(b"\0" * 512 + counts[0] + name + counts[1] + counts[2] + SUPER_JOURNAL)
    for act in (READERS[TRIALS], TrialWriter):
        with pytest.raises(RunError, match=f"^{copied / TRIALS}-journal: it names a file to remove"):
            act(copied)
    assert other.read_text() == "kept"


@pytest.mark.parametrize("act", [READERS[TRIALS], TrialWriter])
def test_nothing_is_written_through_a_link_beside_the_trials(copied: Path, tmp_path: Path, act: Callable[[Path], object]):
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    (copied / f"{TRIALS}-wal").symlink_to(other)
    with suppress(RunError):
        act(copied)
    assert other.read_bytes() == b"kept"


def test_a_value_of_another_type_is_refused(copied: Path):
    strict = "UPDATE sqlite_schema SET sql = replace(sql, {}) WHERE name = 'kinds'"
    for statements in ([strict.format("' STRICT', ''")], ["UPDATE kinds SET record = x'00'", strict.format("')', ') STRICT'")]):
        with closing(sqlite3.connect(copied / TRIALS, isolation_level=None)) as db:
            db.execute("PRAGMA writable_schema=ON")
            for statement in statements:
                db.execute(statement)
    refused(TRIALS, copied)


def test_a_long_name_in_a_baseline_is_told_in_short_and_one_in_a_manifest_breaks_no_line(copied: Path):
    data = json.loads((copied / BASELINE).read_bytes())
    data["gate"]["metrics"] = {"x" * 10_000: 0.1}
    (copied / BASELINE).write_text(json.dumps(data))
    assert len(refused(BASELINE, copied)) < 1_000
    rewrite_manifest(copied, {"versions": {"\n": []}})
    refused(MANIFEST, copied)


# --- whatever the structure holds ---


@pytest.mark.parametrize("name", READERS)
@settings(SHARED, max_examples=FEW)
@given(data=st.data())
def test_a_mutated_artefact_is_read_or_refused_in_one_line(artefacts: Path, tmp_path: Path, name: str, data: st.DataObject):
    check_mutations(artefacts, tmp_path / "mutated", name, data.draw)
