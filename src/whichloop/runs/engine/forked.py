"""Workers that are forks of the command's process: they have imported and looked up all that it has."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.forking import Fork, fork, safe_forks
from whichloop.runs.permissions import own_code
from whichloop.runs.registry import is_generated, starts_nothing

from .job import Job
from .worker_process import Pipes, serve

MIN_TRIALS = 300
"""Trials below which one process is as quick: two take turns with the command, and each replays the plans of its tasks itself."""
_USUAL = ("engine", "workers", "concurrency", "models", "user", "real_time", "data", "tools", "cassette", "budget")
"""Settings that must be the usual ones."""
MAX_FORKS = 4
"""Most forks: one process hands out the trials and writes what came of them."""


@dataclass(slots=True)
class ForkedWorker:
    """A fork that waits for its first message, as a process of the event loop."""

    process: Fork
    pipes: tuple[int, int] | None
    """File descriptors of its answers and its orders, until a link takes them over."""
    end_descriptor: int
    """File descriptor that can be read once it has ended."""
    _exit_code: asyncio.Future[int] | None = field(default=None, init=False)
    _is_reaped: bool = field(default=False, init=False)

    @classmethod
    def make(cls, job: Job) -> ForkedWorker:
        """Fork a worker. Raises OSError if the system grants none, or none that can be watched."""
        process = fork(partial(_work, job))
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process.pid, process.pid)
        try:
            end_descriptor = os.pidfd_open(process.pid)
        except OSError:
            process.end()
            for pipe in (process.answers, process.orders):
                os.close(pipe)
            raise
        return cls(process, (process.answers, process.orders), end_descriptor)

    @property
    def pid(self) -> int:
        return self.process.pid

    def take(self) -> tuple[int, int]:
        """Return the file descriptors of its answers and its orders; whoever takes them closes them."""
        assert self.pipes is not None
        pipes, self.pipes = self.pipes, None
        return pipes

    async def wait(self) -> int:
        """Wait for its end, and return its exit code, or below 0 the signal that ended it."""
        if self._exit_code is None:
            loop = asyncio.get_running_loop()
            self._exit_code = loop.create_future()
            loop.add_reader(self.end_descriptor, self._reap, loop)
        return await asyncio.shield(self._exit_code)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.end_descriptor)
        _, status = os.waitpid(self.pid, 0)
        self._is_reaped = True
        assert self._exit_code is not None
        self._exit_code.set_result(os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        """End it, if it has not ended, and close what is open."""
        if not self._is_reaped:
            self.process.end()
        for opened in (*(self.pipes or ()), self.end_descriptor):
            os.close(opened)


def _work(job: Job, orders: int, answers: int) -> int:
    """Run trials on order, and return the exit code. In a process group of its own: a terminal's Ctrl-C is for the command."""
    os.setpgid(0, 0)
    os.dup2(2, 1)
    return serve(Pipes(orders, answers), job)


def forks_for(config: CompareConfig, trials: int) -> int:
    """Return among how many forks a run shares its trials; 0 where they stay in this process.

    They stay where a fork might not do the same as this process: with code that is not of whichloop, files that tasks are read from
    as they come up, servers, recordings, budgets and models that are not scripted, and where the settings say how many run at once.
    """
    usual = CompareConfig()
    if trials < MIN_TRIALS or any(getattr(config, name) != getattr(usual, name) for name in _USUAL):
        return 0
    loops = [parse_spec(text) for text in config.loops]
    is_ours = not own_code(config) and all(map(starts_nothing, loops)) and is_generated(parse_spec(config.suite).name)
    processors = min(MAX_FORKS, len(os.sched_getaffinity(0))) if is_ours else 0
    return processors if processors > 1 else 0


@contextmanager
def forked_workers(job: Job, trials: int) -> Iterator[list[ForkedWorker]]:
    """Give the forks among which a run of so many trials shares them, as many as `forks_for` says, or none where that is not safe.

    To be called before an event loop or a thread runs.
    """
    can_watch = hasattr(os, "pidfd_open")  # not in a Python that was built on an older system
    workers = safe_forks(partial(ForkedWorker.make, job), forks_for(job.config, trials) if can_watch else 0)
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()
