"""What the tests of the engine share: runs, designs that misbehave, and worker processes to be killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.metrics.record import Record, records_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records

NASTY = '''
"""Designs that misbehave, each in one way."""

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import time
from pathlib import Path

from whichloop.protocol import HARNESS_STOPS, Outcome, StopReason

BEGUN = Path(__file__).with_suffix(".begun")  # is there once a trial has begun


class Base:
    stops = HARNESS_STOPS

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds

    def with_step_limit(self, tool_steps):
        return self

    @property
    def name(self):
        return type(self).__name__

    async def run(self, query, tools, model, observer=None):
        BEGUN.touch()
        await self.misbehave()
        return Outcome("done", StopReason.FINISHED, 0)


class Swallows(Base):
    """The interruption, and goes on."""

    async def misbehave(self):
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(10**6)


class Matches(Base):
    """Code in C that holds on to the interpreter."""

    async def misbehave(self):
        re.match("(a+)+$", "a" * 64 + "b")


class HoldsOn(Base):
    """Code in C that holds on to the interpreter, and needs no processor for it."""

    async def misbehave(self):
        while True:
            ctypes.PyDLL(None).sleep(10**6)


class Hangs(Base):
    """In a thread, for good."""

    async def misbehave(self):
        await asyncio.to_thread(time.sleep, 10**6)


class Lingers(Base):
    """Leaves a task behind that swallows its cancellation."""

    async def misbehave(self):
        async def immortal():
            while True:
                with contextlib.suppress(BaseException):
                    await asyncio.sleep(0.01)

        self.task = asyncio.create_task(immortal())


class Exits(Base):
    async def misbehave(self):
        os._exit(7)


class Dies(Base):
    async def misbehave(self):
        os.kill(os.getpid(), signal.SIGKILL)


class LeavesAChild(Base):
    async def misbehave(self):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


class Prints(Base):
    async def misbehave(self):
        print("printed", flush=True)
        os.write(1, b"written\\n")


class Leaves(Base):
    async def misbehave(self):
        async def leave():
            raise SystemExit(0)

        await asyncio.create_task(leave())


class CancelsAll(Base):
    async def misbehave(self):
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(60)


class StopsTheLoop(Base):
    async def misbehave(self):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)


class HoldsUp(Base):
    """The event loop, for a while."""

    async def misbehave(self):
        time.sleep(self.seconds)


class Waits(Base):
    """In three parts, so that its time limit may come between them."""

    async def misbehave(self):
        for _ in range(3):
            await asyncio.sleep(self.seconds / 3)
'''


@dataclass
class Told(Unwatched):
    """Progress that remembers."""

    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    each: Callable[[int], object] = lambda count: None
    """Called with the number of records so far."""

    def finished(self, record: Record) -> None:
        self.records.append(record)
        self.each(len(self.records))

    def noted(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Ran:
    """What came of a run."""

    experiment: Experiment
    stopped: str
    told: Told

    @property
    def records(self) -> list[Record]:
        return list(read_records(self.experiment.folder))

    @property
    def digest(self) -> str:
        return records_digest(self.records)

    def of(self, loop: str) -> list[Record]:
        return sorted((record for record in self.records if loop in record.arm), key=lambda record: record.key)

    @property
    def is_whole(self) -> bool:
        """Every trial is there, and none twice."""
        keys = [record.key for record in self.records]
        return not self.stopped and len(keys) == len(set(keys)) == self.experiment.trials


@pytest.fixture
def nasty(tmp_path, monkeypatch) -> Path:
    """The designs that misbehave, where only `sys.path` of this process leads; gives their file."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    file: Path = folder / "nasty.py"
    file.write_text(NASTY)
    return file


DEFAULTS: dict[str, Any] = {
    "loops": ("bare",),
    "suite": "arithmetic(size=6)",
    "profiles": ("flaky-format", "flaky-tools"),
    "mlflow": False,
}


@pytest.fixture
def configured(tmp_path) -> Callable[..., CompareConfig]:
    """Makes a configuration: bare over a few tasks under two profiles, without MLflow."""
    return lambda **changes: CompareConfig(**(DEFAULTS | {"runs": tmp_path / "runs"} | changes))


@pytest.fixture
def ran(configured) -> Callable[..., Ran]:
    """Runs a configuration to its end, or to where it stops."""

    def go(told: Told | None = None, **changes: Any) -> Ran:
        experiment, told = prepare(configured(**changes)), told or Told()
        return Ran(experiment, run(experiment, told), told)

    return go


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> Callable[..., Ran]:
    """Runs a configuration in this process, once for all tests that hold another run against it; they only read it."""
    known: dict[str, Ran] = {}

    def go(**changes: Any) -> Ran:
        asked = repr(sorted(changes.items()))
        if asked not in known:
            experiment, told = prepare(CompareConfig(**(DEFAULTS | {"runs": tmp_path_factory.mktemp("runs")} | changes))), Told()
            known[asked] = Ran(experiment, run(experiment, told), told)
        return known[asked]

    return go


@pytest.fixture(scope="session")
def told() -> type[Told]:
    """Makes progress that remembers."""
    return Told


@pytest.fixture
def workers_of() -> Callable[[int], list[int]]:
    """Finds the process ids of the workers that a process has now, but those that it had before the test.

    This process adopts the orphans of what other tests have killed: they may end a while later.
    """
    before = frozenset(_workers_of(os.getpid()))
    return lambda parent: [worker for worker in _workers_of(parent) if worker not in before]


def _workers_of(parent: int) -> list[int]:
    """They are of this program, or forks of a prepared one; each leads a session of its own, and what forks them does not."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_child_of, _, session = map(int, (folder / "stat").read_text().rpartition(")")[2].split()[1:4])
            command = (folder / "cmdline").read_bytes()
            known = b"engine.worker" in command or (b"prepared.py" in command and session == int(folder.name))
            if is_child_of == parent and known:
                found.append(int(folder.name))
        except (OSError, ValueError):  # no process, or one that has just ended
            continue
    return found
