"""The loop of an arm as an object: the one that ran, or one line that says why there is none."""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Four(Bare):
    """A loop whose author gave it a limit."""

    max_steps: int = 4


LOOPS = ["finish", "finish(parse_retries=0)", 'repeat_guard(loop="bare(max_steps=7)")']


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    runs = tmp_path_factory.mktemp("runs")
    settings: dict[str, Any] = {"tasks": 2, "mlflow": False, "runs": runs}
    return whichloop.compare([*LOOPS, Four, Bare(max_steps=2)], profiles=["clean", "flaky-tools"], **settings)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("finish", Finish()),
        ("finish/flaky-tools", Finish()),
        ("finish(parse_retries=0)", Finish(parse_retries=0)),
        ("repeat_guard", RepeatGuard(Bare(max_steps=7))),
        (f"{__name__}:Four", Four()),
        ("bare(max_steps=2)", Bare(max_steps=2)),
    ],
)
def test_it_is_set_as_it_was_compared(run: Loaded, name: str, loop: Any) -> None:
    assert run.loop(name) == loop


def test_the_limit_that_was_typed_for_the_run_is_its_users_too(tmp_path: Path) -> None:
    made = whichloop.compare(["finish", Four], tasks=1, max_tool_steps=11, profiles=["clean"], mlflow=False, runs=tmp_path)
    assert (made.loop("finish"), made.loop(f"{__name__}:Four")) == (Finish(max_steps=12), Four(max_steps=12))


def test_what_ends_at_a_limit_of_its_own_is_counted_and_the_limit_is_told_in_tool_steps(run: Loaded) -> None:
    manifest, limits = run.results.manifest, run.results.comparison.limits
    suites = manifest.suite.max_tool_steps
    assert [limit for arm, limit in manifest.step_limits.items() if arm.endswith("/clean")] == [suites, suites, 6, 3, 1]
    stops = [record.arm for record in run.results.records if record.arm.startswith("bare(") and record.stop == "max_steps"]
    assert limits.ended["bare(max_steps=2)/clean"] == stops.count("bare(max_steps=2)/clean") > 0


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
