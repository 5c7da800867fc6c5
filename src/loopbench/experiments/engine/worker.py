"""The other end of a link: runs trials in one process, as it is told.

`python -m loopbench.experiments.engine.worker READ WRITE` is a worker of this machine: it talks through two pipes, whose file
descriptors it is given; see `processes.py`. Its messages are those of `links.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from loopbench.datasets.task import Task
from loopbench.models.metering import Meter

from ..answering import answering
from ..config import config_from
from ..preparing import look_up, manifest_of
from ..schedule import Trial
from ..trial import NotRun, Setting, run_trial
from .framing import Frames, framed
from .job import COMPARED, setting_of
from .leftovers import Left, Leftovers
from .links import WorkerError
from .watchdog import Watch

SPENT_EVERY_S = 0.1
ALIVE_EVERY_S = 1.0

Send = Callable[[bytes], None]


class WorkerLoop:
    """Runs trials on the event loop of one process: of a worker process, or of an actor."""

    def __init__(self, setup: bytes) -> None:
        """`setup`: what `setup_of` gave. Raises WorkerError where it cannot be done here, or other code is found. Blocks."""
        given = json.loads(setup)
        try:
            self._config = config_from(given["config"], "setup")
            self._suite, tasks, self._arms = look_up(self._config)
            _check(given["manifest"], manifest_of(self._config, self._suite, tasks, self._arms))
            self._answering = answering(self._config, self._arms, given["models"])
        except WorkerError:
            raise
        except (ValueError, OSError) as error:
            raise WorkerError(" ".join(str(error).split())) from error
        self._tasks: Sequence[Task] = self._suite.tasks
        self._meter = _Reported()
        self._queue: asyncio.Queue[_Order] = asyncio.Queue()
        self._running = 0

    async def run(self, incoming: AsyncIterator[bytes], send: Send) -> None:
        """Carry out what `incoming` asks for, until it says that no trial will follow, or itself ends.

        `send` takes one message; it is called from a second thread, too, and must not lose or mix any.
        """
        leftovers = Leftovers()
        watch = Watch(self._config.trial_timeout_s, lambda _: None)  # the pool hears of it from `alive`, and ends the process
        try:
            async with self._answering.opened() as answers:
                with watch.watching(), self._saying_alive(watch, leftovers, send):
                    await self._work(incoming, send, setting_of(self._config, self._suite, answers, self._meter))
        finally:
            left = await leftovers.end()
        send(self._ended(left))

    async def _work(self, incoming: AsyncIterator[bytes], send: Send, setting: Setting) -> None:
        doing = [asyncio.create_task(self._run_trials(setting, send)) for _ in range(self._config.in_flight)]
        doing.append(asyncio.create_task(self._say_spent(send)))
        hearing = asyncio.create_task(self._hear(incoming))
        try:
            done, _ = await asyncio.wait([hearing, *doing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what went wrong, if it did
        finally:
            for task in (hearing, *doing):
                task.cancel()
            await asyncio.gather(hearing, *doing, return_exceptions=True)

    async def _hear(self, incoming: AsyncIterator[bytes]) -> None:
        """Until the last order."""
        async for message in incoming:
            said = json.loads(message)
            if "run" in said:
                self._queue.put_nowait(said["run"])
            elif "stop" in said:
                self._meter.stopped = said["stop"]
            else:
                return

    async def _run_trials(self, setting: Setting, send: Send) -> None:
        """One trial after the other."""
        while True:
            job, arm, task, repeat, attempt = await self._queue.get()
            self._running += 1
            try:
                if self._meter.stopped:
                    raise NotRun(self._meter.stopped)
                trial = Trial(self._arms[arm], self._tasks[task], repeat, self._config.seed, attempt)
                done = await run_trial(trial, setting)
            except NotRun as reason:
                send(_line({"not_run": job, "why": str(reason)}))
            else:
                send(_line({"done": job, "record": done.record.to_json()}) + b"\n" + done.trace)
            finally:
                self._running -= 1
            await asyncio.sleep(0)  # a trial without latency never waits: let the others in

    async def _say_spent(self, send: Send) -> None:
        while True:
            await asyncio.sleep(SPENT_EVERY_S)
            spent = self._meter.since()
            if any(spent):
                send(_line({"spent": spent}))

    @contextlib.contextmanager
    def _saying_alive(self, watch: Watch, leftovers: Leftovers, send: Send) -> Any:
        """From a thread, which goes on where the event loop is stuck."""
        over = threading.Event()

        def say() -> None:
            while not over.wait(ALIVE_EVERY_S):
                send(_line({"alive": self._running, "stuck": watch.stuck_s, "threads": leftovers.threads.total()}))

        thread = threading.Thread(target=say, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _ended(self, left: Left) -> bytes:
        cassette = self._answering.cassette
        replayed, miss = (0, "") if cassette is None else (cassette.hits, cassette.first_miss)
        said = self._answering.pressure()
        left_behind = {"threads": left.threads, "tasks": left.tasks}
        return _line({"ended": {**left_behind, "said": said, "replayed": replayed, "miss": miss}})


_Order = list[int]
"""Job, arm, task, repeat and attempt."""


class _Reported(Meter):
    """What trials of this process spend; the run's budget is kept where the run is."""

    stopped = ""
    """Why nothing more may be spent."""
    _said = (0, 0, 0.0)

    @property
    def exhausted(self) -> str:
        return self.stopped

    def since(self) -> list[float]:
        """Calls, tokens and dollars since this was last asked."""
        now, before = (self.calls, self.tokens, self.dollars), self._said
        self._said = now
        return [new - old for new, old in zip(now, before, strict=True)]


def _check(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raises WorkerError where this process would run something else."""
    for part in COMPARED:
        if json.loads(json.dumps(found[part])) != expected[part]:
            raise WorkerError(f"it has other code or data than this process: {part} changed")


def _line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode("ascii")


# --- a process of this machine ---


class _Pipes:
    """A worker process's ends: one thread reads, any may write."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._frames = Frames()
        self._messages: deque[bytes] = deque()
        self._came = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="pipe", daemon=True).start()

    def first(self) -> bytes:
        """Blocks."""
        while not self._messages:
            self._came.wait()
            self._came.clear()
        return self._messages.popleft()

    def send(self, message: bytes) -> None:
        left = memoryview(framed(message))
        with self._lock:
            while left:
                left = left[os.write(self._write, left) :]

    async def incoming(self) -> AsyncIterator[bytes]:
        self._loop = asyncio.get_running_loop()
        while True:
            while self._messages:
                yield self._messages.popleft()
            self._wake.clear()
            if not self._messages:  # the thread adds first, and wakes then
                await self._wake.wait()

    def _listen(self) -> None:
        """Until the other end is closed, or its process is gone: then this one ends at once, whatever it is doing."""
        while data := os.read(self._read, 1 << 16):
            self._messages.extend(self._frames.feed(data))
            self._came.set()
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # it has just been closed
                    self._loop.call_soon_threadsafe(self._wake.set)
        _end_all()


def _end_all() -> None:
    """End this process and those that its trials started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _die_with_parent() -> None:
    """Let the kernel end this process with its parent: its thread that would notice may be kept out by code in C."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    read, write = map(int, sys.argv[1:3])
    for descriptor in (read, write):
        os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that the user started; it ends this one
    _die_with_parent()
    logging.getLogger("loopbench.loops").setLevel(logging.ERROR)  # what a loop warns of stands in its trial's trace
    pipes = _Pipes(read, write)
    setup = pipes.first()
    sys.path[:] = json.loads(setup)["path"]
    try:
        worker = WorkerLoop(setup)
    except WorkerError as error:
        pipes.send(_line({"refused": str(error)}))
        return
    pipes.send(_line({"ready": True}))
    asyncio.run(worker.run(pipes.incoming(), pipes.send))


if __name__ == "__main__":
    main()
