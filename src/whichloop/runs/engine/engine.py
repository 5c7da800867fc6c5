"""The engine that carries out a run's trials: this process, worker processes, or a Ray cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from whichloop.runs.config import CompareConfig
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.loop_run import Abandoned, Leftovers
from whichloop.runs.trial.trial import FinishedTrial, NotRun, TrialContext, run_trial
from whichloop.runs.trial.watchdog import Watch

from .interruption import INTERRUPTED
from .job import Job, setting_of
from .messages import Frames, Links, WorkerError, WorkerLost, framed
from .pool import Pool
from .runner import Execute, Progress

PATIENCE_S = 5.0
"""Seconds that a process has to end by itself."""
DRAIN_S = 0.5
"""Seconds after a process's end in which its last messages are still read; a process that it started may keep the pipe open."""


class ProcessLink:
    """A worker process in its own group of processes, so that Ctrl-C does not reach it and its children end with it."""

    def __init__(self, number: int) -> None:
        self.name = f"worker {number}"
        self._process: asyncio.subprocess.Process | None = None
        self._end_watch: asyncio.Task[None] | None = None
        self._inbox = _Inbox()
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []

    async def start(self, setup: bytes) -> None:
        self._process = await self._new_process()
        self._end_watch = asyncio.create_task(self._watch(self._process))
        await self.send(setup)
        answer: dict[str, object] = json.loads(await self.receive())
        if "refused" in answer:
            raise WorkerError(answer["refused"])

    async def _new_process(self) -> asyncio.subprocess.Process:
        read, to_worker = os.pipe()
        from_worker, write = os.pipe()
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "whichloop.runs.engine.worker_process", str(read), str(write),
                stdin=asyncio.subprocess.DEVNULL, stdout=2, pass_fds=(read, write), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(read)
            os.close(write)
            await self._connect(from_worker, to_worker)

    async def _connect(self, from_worker: int, to_worker: int) -> None:
        loop = asyncio.get_running_loop()
        self._reading, _ = await loop.connect_read_pipe(lambda: self._inbox, os.fdopen(from_worker, "rb", 0))
        self._writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(to_worker, "wb", 0))

    async def send(self, message: bytes) -> None:
        if self._writing is None or self._writing.is_closing():
            raise WorkerLost(await self._how_it_ended())
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(framed(message))

    def _flush(self) -> None:
        """Write what was sent in this turn of the event loop at once."""
        if self._writing is not None and not self._writing.is_closing():
            self._writing.write(b"".join(self._unsent))
        self._unsent.clear()

    async def receive(self) -> bytes:
        message = await self._inbox.next()
        if message is None:
            raise WorkerLost(await self._how_it_ended())
        return message

    async def stop(self, *, kill: bool) -> None:
        try:
            if self._process is not None and not kill:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), PATIENCE_S)
        finally:
            if self._process is not None:
                self._kill(self._process.pid)
                await self._process.wait()
            if self._end_watch is not None:
                self._end_watch.cancel()
            if self._writing is not None and not self._writing.is_closing():
                self._writing.abort()
            if self._reading is not None:
                self._reading.close()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        await asyncio.sleep(DRAIN_S)
        self._inbox.end()

    async def _how_it_ended(self) -> str:
        """End the process if it only closed its pipe, and return in words how it ended."""
        process = self._process
        if process is None:
            return "it was not started"
        try:
            code = await asyncio.wait_for(process.wait(), PATIENCE_S)
        except TimeoutError:
            self._kill(process.pid)
            code = await process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    @staticmethod
    def _kill(group: int) -> None:
        """Kill a process, if it still lives, and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


class _Inbox(asyncio.Protocol):
    """The messages of a worker that were not read yet."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._messages: deque[bytes] = deque()
        self._ended = False
        self._has_news = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._messages.extend(self._frames.feed(data))
        self._has_news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def end(self) -> None:
        """Note that nothing more will come."""
        self._ended = True
        self._has_news.set()

    async def next(self) -> bytes | None:
        """Return the next message, or None after the last one."""
        while not self._messages:
            if self._ended:
                return None
            self._has_news.clear()
            await self._has_news.wait()
        return self._messages.popleft()


@dataclass(slots=True)
class Engine:
    """Carries out trials."""

    execute: Execute
    in_flight: int
    """Number of trials to request at once."""
    abandoned: Abandoned
    progress: Progress
    pool: Pool | None = None
    """The workers, if the trials run on some."""
    _under_way: int = field(default=0, init=False)
    _is_winding_down: bool = field(default=False, init=False)

    async def __call__(self, trial: Trial) -> FinishedTrial:
        """Run a trial. Raises NotRun if the run's budget is used up, and once the engine winds down."""
        if self._is_winding_down:
            raise NotRun(INTERRUPTED)
        self._under_way += 1
        try:
            return self.abandoned.count(await self.execute(trial))
        finally:
            self._under_way -= 1

    def wind_down(self) -> None:
        """Begin no further trial, let those under way end, and say so."""
        self._is_winding_down = True
        under_way = self._under_way if self.pool is None else self.pool.wind_down(INTERRUPTED)
        trials = "1 trial that is under way ends" if under_way == 1 else f"{under_way} trials that are under way end"
        self.progress.interrupted(f"{trials} first; Ctrl-C again ends the run at once")


@asynccontextmanager
async def opened(job: Job, progress: Progress) -> AsyncIterator[Engine]:
    """Keep an engine open within this block. Raises WorkerError if no worker can be had."""
    abandoned = Abandoned()
    try:
        if not job.config.is_spread:
            async with _here(job, progress) as setting:
                yield Engine(partial(run_trial, setting=setting), job.config.in_flight, abandoned, progress)
            return
        with _links(job.config) as links:
            async with Pool(job, links, progress).opened() as pool:
                yield Engine(pool.run, pool.in_flight, abandoned, progress, pool)
    finally:
        for line in abandoned.lines():
            progress.noted(line)


@contextmanager
def _links(config: CompareConfig) -> Iterator[Links]:
    """Return where the run's workers come from. Raises WorkerError if none can be had."""
    if config.engine == "local":
        assert config.workers is not None
        yield Links(ProcessLink, config.workers)
        return
    from .ray import cluster_links

    with cluster_links(config.address, config.workers) as links:
        yield links


@asynccontextmanager
async def _here(job: Job, progress: Progress) -> AsyncIterator[TrialContext]:
    """Run trials in this process, beside what watches over them."""
    leftovers, watch = Leftovers(), Watch(job.config.trial_timeout_s, progress.noted)
    try:
        async with job.trial_models.opened() as answers:
            with watch.watching():
                yield setting_of(job.config, job.suite, answers, job.meter)
    finally:
        for line in (await leftovers.end()).lines():
            progress.noted(line)
