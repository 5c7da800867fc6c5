"""Ctrl-C in a search: the first lets the rollouts under way end and says so, the next ends it at once; either can be resumed."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whichloop.experiments.optimize.candidates import read_log
from whichloop.experiments.optimize.config import OptimizeConfig, load_optimize_config
from whichloop.experiments.optimize.prepare import Optimization, prepare, reopen
from whichloop.experiments.optimize.run import run
from whichloop.runs.engine.interruption import press_everywhere
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import read_manifest_json

ENDS = "; Ctrl-C again ends the search at once"
UNDER_WAY = f"1 rollout under way will end first{ENDS}"
LOOP = """
import asyncio
from dataclasses import dataclass

from whichloop.loops.bare import Bare

before_run = []

@dataclass(frozen=True)
class Watched(Bare):
    async def run(self, query, tools, model, observer=None):
        for wait in before_run:
            await wait()
        return await super().run(query, tools, model, *([] if observer is None else [observer]))
"""


@dataclass
class Notes(Unwatched):
    """Progress that keeps its notes."""

    notes: list[str] = field(default_factory=list)
    then: Callable[[], None] = lambda: None

    def noted(self, text: str) -> None:
        self.notes.append(text)
        self.then()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of a loop that awaits what a test says, before each of its runs."""
    (tmp_path / "watched_loop.py").write_text(LOOP, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import watched_loop  # type: ignore[import-not-found]  # written above

    yield watched_loop
    del sys.modules["watched_loop"]


@pytest.fixture
def configured(watched: ModuleType, tmp_path: Path) -> Callable[[], OptimizeConfig]:
    given: dict[str, Any] = {
        "loops": ("watched_loop:Watched",),
        "suite": "arithmetic(size=30)",
        "profiles": ("teachable",),
        "train": 4,
        "dev": 3,
        "tasks": 4,
        "repeats": 1,
        "mlflow": False,
        "runs": tmp_path / "runs",
    }
    return lambda: load_optimize_config(None, given)


def kept(made: Optimization) -> list[Any]:
    return [line["key"] for path in sorted(made.folder.glob("designs/*/rollouts.jsonl")) for _, line in read_log(path)]


def at_run(number: int, act: Callable[[], Any], until: Callable[[], bool]) -> Callable[[], Any]:
    """Act before the run of that number, counted from 1, and wait there."""
    runs = 0

    async def wait() -> None:
        nonlocal runs
        runs += 1
        if runs == number:
            act()
            while not until():
                await asyncio.sleep(0)

    return wait


def press(number: int = signal.SIGINT) -> None:
    """Send a signal as a terminal does, to the main thread: rollouts run on another one."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)


@pytest.mark.thorough
def test_the_first_lets_the_rollout_under_way_end_and_is_told(configured, watched):
    whole = prepare(configured())
    assert run(whole) == ""
    made, told = prepare(configured()), Notes()
    watched.before_run.append(at_run(3, press, lambda: bool(told.notes)))
    assert run(made, progress=told) == "interrupted"
    assert told.notes == [UNDER_WAY]
    assert kept(made) == kept(whole)[:3]  # the third was under way
    assert not press_everywhere()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    watched.before_run.clear()
    again = reopen(made.folder, Permissions(("watched_loop:Watched",)))
    assert run(again) == ""
    assert kept(again) == kept(whole)


@pytest.mark.thorough
def test_one_at_the_last_rollout_leaves_the_test_split_locked(configured, watched):
    whole = prepare(configured())
    assert run(whole) == ""
    made, told = prepare(configured()), Notes()
    watched.before_run.append(at_run(len(kept(whole)), press, lambda: bool(told.notes)))
    assert run(made, progress=told) == "interrupted"
    assert kept(made) == kept(whole)
    assert read_manifest_json(made.folder)["splits"]["test"]["opened"] is None
    watched.before_run.clear()
    assert run(reopen(made.folder, Permissions(("watched_loop:Watched",)))) == ""


def test_the_second_ends_the_search_at_once(configured, watched, monkeypatch):
    monkeypatch.setattr("whichloop.runs.engine.interruption.SAME_WISH_S", 0.0)
    made, told = prepare(configured()), Notes(then=press)
    watched.before_run.append(at_run(2, press, lambda: False))
    with pytest.raises(KeyboardInterrupt):
        run(made, progress=told)
    assert told.notes == [UNDER_WAY]
    assert len(kept(made)) == 1


def test_a_signal_to_end_does_not_wait(configured, watched):
    made, told = prepare(configured()), Notes()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: press_everywhere(at_once=True))
    watched.before_run.append(at_run(2, lambda: press(signal.SIGUSR1), lambda: False))
    try:
        with pytest.raises(KeyboardInterrupt):
            run(made, progress=told)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told.notes == []
    assert not press_everywhere()
