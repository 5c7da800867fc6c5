"""A damaged file of each kind, through a command that reads it: exit code 2, one line that names the file, and no result."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hostile_artefacts import BASELINE, CONFIG, PROFILE, PROGRAM, make_artefacts
from tests.models.recordings import ask, use
from whichloop.models.fake import FakeModel
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store.trials import TRIALS, read_records

TAPE = "tape"
QUICK = ("--loop", "bare", "--suite", "arithmetic", "--tasks", "1", "--quiet")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    MANIFEST: ("report", "."),
    TRIALS: ("report", "."),
    BASELINE: ("gate", ".", "--baseline", BASELINE),
    PROGRAM: ("prompts", PROGRAM),
    TAPE: ("compare", *QUICK, "--model", "openai/x", "-s", f"cassette={TAPE}", "-s", "cassette_mode=replay"),
    CONFIG: ("compare", "--config", CONFIG, "--quiet"),
    PROFILE: ("compare", *QUICK, "--profile", PROFILE),
}


def flipped(raw: bytes) -> bytes:
    """Change one bit in the middle, so that TOML is no longer UTF-8."""
    place = len(raw) // 2
    return raw[:place] + bytes([raw[place] ^ 0x80]) + raw[place + 1 :]


DAMAGE: Mapping[str, Callable[[bytes], bytes]] = {
    "a changed bit": flipped,
    "zeros": lambda raw: bytes(len(raw) - 1) + b"\n",
    "another's": lambda raw: b'{"checksum": 1, "config": {}, "arm": [[[[["\xed\xa0\x80"]]]]]}\n',
    "nested": lambda raw: b"[" * 100_000 + b"\n",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one artefact of each kind."""
    folder = make_artefacts(tmp_path_factory.mktemp("runs"))
    use(folder / TAPE, "record", [ask()], FakeModel("42"), name="openai/x")
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_file_ends_its_command_with_one_line(whichloop: Any, here: Path, whole: Path, name: str, damage: str):
    shutil.copytree(whole, here, dirs_exist_ok=True)
    (trial, *_) = (record.name for record in read_records(here))
    path = next((here / TAPE).rglob("*.jsonl")) if name == TAPE else here / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    ended = whichloop(*(word.format(trial=trial) for word in COMMANDS[name]))
    assert (ended.code, ended.out) == (2, "")
    first, *cures = ended.err.splitlines()
    assert first.startswith("error: ")
    assert all(line.startswith("  ") for line in cures), "what would be right has lines of its own"
    assert re.search(rf"{re.escape(path.name)}\b", first)
    assert "Traceback" not in ended.err
