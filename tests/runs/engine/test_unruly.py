"""Designs that reach out of their trial, at the event loop, the process or the folder: the run says so, and can be gone on with."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prepared import start_command
from whichloop.experiments.compare.reopen import reopen
from whichloop.runs.engine import pool
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import read_records

UNRULY = '''
"""Designs that reach out of their trial."""

import asyncio
import os
import threading
import time

from whichloop.protocol import HARNESS_STOPS, Outcome, StopReason

class Base:
    stops = HARNESS_STOPS

    def with_step_limit(self, tool_steps):
        return self

    @property
    def name(self):
        return type(self).__name__

    async def run(self, query, tools, model, observer=None):
        await self.act(tools)
        return Outcome("done", StopReason.FINISHED, 0)


class Leaves(Base):
    async def act(self, tools):
        async def leave():
            raise SystemExit(0)

        await asyncio.create_task(leave())


class CancelsAll(Base):
    async def act(self, tools):
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(60)


class StopsTheLoop(Base):
    async def act(self, tools):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)


class GoesAway(Base):
    async def act(self, tools):
        os.chdir("/")


class StartsAThread(Base):
    """One that Python waits for."""

    async def act(self, tools):
        threading.Thread(target=time.sleep, args=(10**6,), name="endless").start()


class Rests(Base):
    async def act(self, tools):
        await asyncio.sleep(1.5)
'''


@pytest.fixture
def unruly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "unruly.py").write_text(UNRULY)
    monkeypatch.syspath_prepend(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "own"
    sys.modules.pop("unruly", None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("loop", "said"),
    [("Leaves", r"called sys.exit\(0\)"), ("CancelsAll", "cancelled all"), ("StopsTheLoop", "stopped the event loop")],
)
def test_what_ends_the_event_loop_is_told_and_leaves_a_run_to_go_on_with(unruly, ran, tmp_path, loop, said):
    with pytest.raises(RunError, match=f"code of a loop or a tool {said}.*--workers N") as caught:
        ran(loops=("bare", f"unruly:{loop}"), suite="arithmetic(size=2)", profiles=("clean",), concurrency=1)
    assert "\n" not in str(caught.value)
    (folder,) = (tmp_path / "runs").iterdir()
    assert [record.arm for record in read_records(folder)] == ["bare/clean"]
    assert len(reopen(folder, Permissions(code=[f"unruly:{loop}"])).missing()) == 3


def test_a_design_that_goes_to_another_folder_loses_nothing(unruly, ran, tmp_path):
    assert ran(loops=("unruly:GoesAway", "bare"), runs=Path("runs"), suite="arithmetic(size=2)", profiles=("clean",)).is_whole
    assert Path.cwd() == tmp_path


@pytest.mark.thorough
def test_a_worker_that_was_frozen_is_not_the_loops_fault(unruly, ran, told, workers_of, monkeypatch):
    monkeypatch.setattr(pool, "SILENCE_GRACE_S", 1.0)

    def freeze(count: int) -> None:
        if count == 1:
            os.kill(workers_of(os.getpid())[0], signal.SIGSTOP)

    alone = {"workers": 1, "concurrency": 1, "trial_timeout_s": 4}
    found = ran(told(each=freeze), loops=("unruly:Rests",), suite="arithmetic(size=3)", profiles=("clean",), **alone)
    assert found.is_whole
    assert {record.stop for record in found.records} == {"finished"}
    assert any("and was killed" in note for note in found.told.notes)


@pytest.mark.thorough
def test_a_thread_that_never_ends_does_not_keep_the_command_from_ending(unruly, tmp_path):
    asked = ["compare", "--loop", "unruly:StartsAThread", "--tasks", "1", "--json"]
    with start_command(asked, tmp_path, {"PATH": os.defpath, "PYTHONPATH": str(unruly)}) as process:
        said, erred = process.communicate(timeout=200)
    assert process.returncode == 4, erred  # it never asks its model
    assert said.startswith("{")
    assert erred.splitlines()[-1].startswith("page, once this command has ended: ")  # the thread ended with the loop's worker
    assert "(endless)" not in erred


@pytest.mark.thorough
def test_files_of_the_current_folder_do_not_replace_what_a_worker_begins_with(unruly, ran, tmp_path):
    (tmp_path / "logging.py").write_text("raise RuntimeError('not this one')\n")
    assert ran(suite="arithmetic(size=2)", workers=1).is_whole
