"""Runs the trials of a schedule, a bounded number at once: in this process, in worker processes, or on a Ray cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from whichloop.metrics.record import Record
from whichloop.runs.schedule import Trial
from whichloop.runs.store.trials import TrialWriter
from whichloop.runs.trial.trial import FinishedTrial, NotRun, run_trial, setting_of
from whichloop.runs.trial.watchdog import INTERRUPTED, beating, hangs_at, leaving_nothing

from .job import Job
from .messages import Links, WorkerError, WorkerLost, framed
from .pool import Pool

FIRST_FAILURES = 50
"""First trials of a run that stop it, to be resumed later, if all of them were errored."""
SLICE = 16
"""Most trials that begin in one turn of the event loop: were it all of them, the first reply would wait for the last to begin."""


class Progress(Protocol):
    """Receives what happens in a run."""

    def finished(self, record: Record) -> None:
        """Handle the end of a trial."""

    def noted(self, text: str) -> None:
        """Handle a note of one line, such as that a worker died or a trial was given up."""

    def interrupted(self, text: str) -> None:
        """Handle the line that says what an interrupted run still waits for; whoever pressed Ctrl-C has to see it."""


class Unwatched:
    """Progress that nobody watches."""

    def finished(self, record: Record) -> None:
        """Do nothing."""

    def noted(self, text: str) -> None:
        """Do nothing."""

    def interrupted(self, text: str) -> None:
        self.noted(text)


PATIENCE_S = 2.0
"""Seconds that a process has to end by itself."""


class ProcessLink:
    """A worker process in its own group of processes, so that Ctrl-C does not reach it and its children end with it."""

    def __init__(self, number: int) -> None:
        self.name = f"worker {number}"
        self._process: asyncio.subprocess.Process | None = None
        self._closing = contextlib.ExitStack()
        self._hang_file = self._closing.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._hangs_at: str | None = None

    async def start(self, setup: bytes) -> None:
        ours, theirs = map(self._closing.enter_context, socket.socketpair())
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._closing.callback(self._writer.transport.abort)
        with theirs:
            handles = (theirs.fileno(), self._hang_file.fileno())
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "whichloop.runs.engine.worker_process", *map(str, handles),
                stdin=asyncio.subprocess.DEVNULL, stdout=2, pass_fds=handles, start_new_session=True,
            )  # fmt: skip
        self.send(setup)
        answer: dict[str, object] = json.loads(await self.receive())
        if "refused" in answer:
            raise WorkerError(answer["refused"])

    def send(self, message: bytes) -> None:
        self._writer.write(framed(message))

    async def receive(self) -> bytes:
        try:
            return await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerLost(await self._end(PATIENCE_S)) from None

    async def hangs_at(self) -> str | None:
        if not self._hang_file.closed:
            self._hangs_at = hangs_at(self._hang_file.fileno())
        return self._hangs_at

    async def stop(self, *, kill: bool) -> None:
        await self._end(0 if kill else PATIENCE_S)
        await self.hangs_at()
        self._closing.close()

    async def _end(self, patience_s: float) -> str:
        """Wait for the end of the process, kill it and those that it started, and return in words how it ended."""
        if self._process is None:
            return "it was not started"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):  # `wait_for` may swallow a cancellation
                await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


@dataclass(slots=True)
class Engine:
    """Carries out trials."""

    execute: Callable[[Trial], Awaitable[FinishedTrial]]
    """Runs a trial, here or elsewhere. Raises NotRun when the run's budget is used up."""
    in_flight: int
    progress: Progress
    pool: Pool | None = None
    _under_way: int = field(default=0, init=False)
    _is_winding_down: bool = field(default=False, init=False)

    async def run(self, trials: Iterable[Trial], journal: TrialWriter) -> str:
        """Run all trials, and write what they give as it comes; return why it stopped early, or an empty text.

        A run in which nothing works, as with a wrong key, stops early. Cancellation stops at once: trials in flight are not
        recorded, and run again on resume.
        """
        waiting, stopped, statuses = iter(trials), "", Counter[str]()

        async def work() -> None:
            nonlocal stopped
            for trial in waiting:
                stopped = stopped or (INTERRUPTED if self._is_winding_down else "")
                if stopped:
                    return
                self._under_way += 1
                try:
                    finished = await self.execute(trial)
                except NotRun as reason:
                    stopped = stopped or str(reason)
                    return
                finally:
                    self._under_way -= 1
                record = finished.record
                journal.append(record, finished.trace)
                self.progress.finished(record)
                statuses[record.status] += 1
                if record.status == "errored" and statuses["errored"] == FIRST_FAILURES and not statuses["scored"]:
                    stopped = stopped or f"the first {FIRST_FAILURES} trials all failed, the last because of {record.reason}"
                await asyncio.sleep(0)  # a trial without latency never waits: let the others, and Ctrl-C, in

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(1, self.in_flight + 1):
                    group.create_task(work())
                    if number % SLICE == 0:
                        await asyncio.sleep(0)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # one failure is told plainly; the others met the same disk
        finally:
            journal.sync()
        return stopped

    def wind_down(self) -> None:
        """Begin no further trial, let those under way end, and say so."""
        self._is_winding_down = True
        under_way = self._under_way if self.pool is None else self.pool.stop(INTERRUPTED)
        self.progress.interrupted(f"trials under way: {under_way}; they end first; Ctrl-C again ends the run at once")


@asynccontextmanager
async def opened(job: Job, progress: Progress) -> AsyncIterator[Engine]:
    """Keep an engine open within this block. Raises WorkerError if no worker can be had."""
    if not job.config.is_spread:
        async with leaving_nothing(), job.trial_models.opened() as answers:
            setting = setting_of(job.config, job.suite, answers, job.meter)
            with beating():
                yield Engine(lambda trial: run_trial(trial, setting), job.config.in_flight, progress)
        return
    with contextlib.ExitStack() as stack:
        if job.config.engine == "local":
            links = Links(ProcessLink, job.config.workers or 1)
        else:
            from .ray import cluster_links  # noqa: PLC0415  # an extra

            progress.noted("starting Ray" if job.config.address is None else f"connecting to Ray at {job.config.address}")
            links = stack.enter_context(cluster_links(job.config.address, job.config.workers))
        async with Pool(job, links, progress.noted).opened() as pool:
            yield Engine(pool.run, pool.in_flight, progress, pool)
