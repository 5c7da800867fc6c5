"""The other end of a link, see `messages.py`: runs trials on order in one process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from json import loads  # bound at import: a loop may replace them in their module later
from typing import Any

from whichloop.datasets.task import Task
from whichloop.models.metering import Budget, Meter
from whichloop.protocol.values import one_line
from whichloop.runs.config import config_from
from whichloop.runs.lookup import resolve
from whichloop.runs.new_manifest import manifest_of
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.loop_run import LeftBehind, Leftovers
from whichloop.runs.trial.trial import NotRun, TrialContext, run_trial
from whichloop.runs.trial.watchdog import Watch
from whichloop.runs.trial_models import open_models

from .job import LineWatch, budget_of, compared, setting_of
from .messages import WorkerError, encoded

SPENT_EVERY_S = 0.1
ALIVE_EVERY_S = 1.0

Send = Callable[[bytes], None]


class WorkerLoop:
    """Runs trials on the event loop of one process, a worker process or an actor."""

    def __init__(self, setup: bytes) -> None:
        """Look up what `setup`, made by `setup_of`, names. Blocks. Raises WorkerError if that fails or the code differs."""
        settings = loads(setup)
        self._lines = LineWatch(settings["lines"])
        self._lines.begin()
        try:
            self._config = config_from(settings["config"], "setup")
            self._suite, tasks, self._arms = resolve(self._config)
            _check_same(settings["manifest"], compared(manifest_of(self._config, self._suite, tasks, self._arms)))
            self._answering = open_models(self._config, self._arms, settings["models"])
        except WorkerError:
            raise
        except (ValueError, OSError) as error:
            raise WorkerError(one_line(str(error))) from error
        self._tasks: Sequence[Task] = self._suite.tasks
        self._meter = _WorkerMeter(budget_of(self._config.budget), settings["spent"])
        self._queue: asyncio.Queue[_Order] = asyncio.Queue()
        self._running = 0
        self._no_further_trial = ""
        """Why no further trial may begin; empty while trials may."""

    async def run(self, incoming: AsyncIterator[bytes], send: Send) -> None:
        """Run the trials that `incoming` orders until it announces that none will follow, or ends itself.

        `send` takes one message; it is called from a second thread, too, and must not lose or mix any.
        """
        leftovers = Leftovers()
        watch = Watch(self._config.trial_timeout_s, lambda _: None)  # the pool hears of it from `alive`, and ends the process
        try:
            async with self._answering.opened() as answers:
                with watch.watching(), self._saying_alive(watch, leftovers, send):
                    await self._work(incoming, send, setting_of(self._config, self._suite, answers, self._meter))
        finally:
            left_behind = await leftovers.end()
        self._send_spent(send)  # what trials that were cut short have spent, too
        send(self._farewell(left_behind))

    async def _work(self, incoming: AsyncIterator[bytes], send: Send, setting: TrialContext) -> None:
        doing = [asyncio.create_task(self._run_trials(setting, send)) for _ in range(self._config.in_flight)]
        doing.append(asyncio.create_task(self._say_spent(send)))
        hearing = asyncio.create_task(self._receive_orders(incoming))
        try:
            done, _ = await asyncio.wait([hearing, *doing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what went wrong, if it did
        finally:
            for task in (hearing, *doing):
                task.cancel()
            await asyncio.gather(hearing, *doing, return_exceptions=True)

    async def _receive_orders(self, incoming: AsyncIterator[bytes]) -> None:
        """Receive orders until the last one."""
        async for message in incoming:
            order = loads(message)
            if "run" in order:
                self._queue.put_nowait(order["run"])
            elif "stop" in order:
                self._no_further_trial = self._meter.stopped = order["stop"]
            elif "last" in order:
                self._no_further_trial = order["last"]
            else:
                return

    async def _run_trials(self, setting: TrialContext, send: Send) -> None:
        """Run one trial after the other."""
        while True:
            job, arm, task, repeat, attempt = await self._queue.get()
            self._running += 1
            try:
                if self._no_further_trial:
                    raise NotRun(self._no_further_trial)
                trial = Trial(self._arms[arm], self._tasks[task], repeat, self._config.seed, attempt)
                finished = await run_trial(trial, setting)
            except NotRun as reason:
                self._send_spent(send)  # the run's process must know at once where this is the end of its budget
                send(encoded({"not_run": job, "why": str(reason)}))
            else:
                send(encoded({"done": job, "record": finished.record.to_json(), **self._lines.news()}) + b"\n" + finished.trace)
            finally:
                self._running -= 1
            await asyncio.sleep(0)  # a trial without latency never waits: let the others in

    async def _say_spent(self, send: Send) -> None:
        while True:
            await asyncio.sleep(SPENT_EVERY_S)
            self._send_spent(send)

    def _send_spent(self, send: Send) -> None:
        spent = self._meter.since()
        if any(spent):
            send(encoded({"spent": spent}))

    @contextlib.contextmanager
    def _saying_alive(self, watch: Watch, leftovers: Leftovers, send: Send) -> Any:
        """Send reports from a thread, which goes on while the event loop is stuck."""
        over = threading.Event()

        def say() -> None:
            while not over.wait(ALIVE_EVERY_S):
                stuck = {"stuck": watch.stuck_s, "at": watch.place}
                send(encoded({"alive": self._running, **stuck, "threads": leftovers.threads.total()}))

        thread = threading.Thread(target=say, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _farewell(self, left_behind: LeftBehind) -> bytes:
        cassette = self._answering.cassette
        replayed, miss = (0, "") if cassette is None else (cassette.hits, cassette.first_miss)
        pressure = self._answering.pressure()
        left_fields = {"threads": left_behind.threads, "tasks": left_behind.tasks}
        return encoded({"ended": {**left_fields, "said": pressure, "replayed": replayed, "miss": miss}})


_Order = list[int]
"""Job, arm, task, repeat and attempt."""


class _WorkerMeter(Meter):
    """Meters what the trials of this process spend. The run's own process keeps its budget, of which this one hears a moment late
    what others spend: by itself it spends no more than was left at its start."""

    def __init__(self, budget: Budget, spent: Sequence[float]) -> None:
        """`spent`: calls, tokens and dollars of the whole run by now."""
        super().__init__(replace(budget, seconds=None))
        self.calls, self.tokens, self.dollars = int(spent[0]), int(spent[1]), spent[2]
        self._reported = (self.calls, self.tokens, self.dollars)
        self.stopped = ""
        """Why nothing more may be spent; empty while it may."""

    @property
    def exhausted(self) -> str:
        return self.stopped or super().exhausted

    def since(self) -> list[float]:
        """Return calls, tokens and dollars since the last call of this function."""
        now, before = (self.calls, self.tokens, self.dollars), self._reported
        self._reported = now
        return [new - old for new, old in zip(now, before, strict=True)]


def _check_same(expected: Mapping[str, object], own: Mapping[str, object]) -> None:
    """Raise WorkerError if this process would run something else."""
    for part, value in expected.items():
        if own[part] != value:
            raise WorkerError(f"it has other code or data than this process: {part} changed")
