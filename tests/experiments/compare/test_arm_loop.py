"""The loop of an arm as an object: the one that ran, or one line that says why there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import whichloop
from tests.sealing import reseal
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.reports.dataframes import Loaded
from whichloop.runs.store.files import MANIFEST, RunError

LOOPS = ["finish", "finish(parse_retries=0)", 'repeat_guard(loop="bare(max_steps=7)")']


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    runs = tmp_path_factory.mktemp("runs")
    settings: dict[str, Any] = {"tasks": 2, "max_tool_steps": 11, "mlflow": False, "runs": runs}
    return whichloop.compare(LOOPS, profiles=["clean", "flaky-tools"], **settings)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("finish", Finish(max_steps=12)),
        ("finish/flaky-tools", Finish(max_steps=12)),
        ("finish(parse_retries=0)", Finish(max_steps=12, parse_retries=0)),
        ("repeat_guard", RepeatGuard(Bare(max_steps=7))),
    ],
)
def test_it_is_set_as_it_was_compared(run: Loaded, name: str, loop: Any) -> None:
    assert run.loop(name) == loop


def test_an_unknown_name_is_told_with_those_that_there_are(run: Loaded) -> None:
    with pytest.raises(RunError, match=r"no arm 'phased'; there are finish/clean, "):
        run.loop("phased")


def changed(run: Loaded, folder: Path, **entry: Any) -> Loaded:
    """Return the run with another entry of its first arm."""
    copied = folder / "run"
    copied.mkdir()
    for path in run.results.folder.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((copied / MANIFEST).read_text())
    manifest["arms"][0] |= entry
    (copied / MANIFEST).write_text(json.dumps(manifest))
    reseal(copied / MANIFEST)
    return whichloop.load(copied)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"configuration": "Finish(max_steps=3)"}, r"is set differently now; it ran as Finish\(max_steps=3\)$"),
        ({"configuration": ""}, "another tool ran this loop"),
        ({"program": "0123"}, "its prompts come from an optimized program"),
        ({"loop": "antigravity:Loop"}, "leads to code of your own, antigravity:Loop: give its whole name to import it$"),
        ({"options": {"max_stepz": 3}}, "max_stepz"),
        ({"options": {"loop": "finish.antigravity:Loop"}}, "leads to code of your own, finish.antigravity:Loop"),
    ],
)
def test_what_cannot_be_made_as_it_was_says_why(run: Loaded, tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    with pytest.raises(RunError, match=said):
        changed(run, tmp_path, **entry).loop("finish/clean")
