"""The other end of a link, see `messages.py`: runs trials on order in one process."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from json import loads  # bound at import: a loop may replace them in their module later
from typing import Any

from whichloop.models.metering import Budget, Meter
from whichloop.protocol.values import one_line
from whichloop.runs.config import config_from
from whichloop.runs.lookup import resolve
from whichloop.runs.new_manifest import manifest_of
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.trial import NotRun, TrialContext, budget_of, run_trial, setting_of
from whichloop.runs.trial.watchdog import beating, leaving_nothing
from whichloop.runs.trial_models import open_models

from .job import LineWatch, compared
from .messages import WorkerError, encoded

Send = Callable[[bytes], object]


class WorkerLoop:
    """Runs trials on the event loop of one process, a worker process or an actor."""

    def __init__(self, setup: bytes, hang_file: int, *, ends_itself: bool = True) -> None:
        """Look up what `setup`, made by `setup_of`, names. Blocks. Raises WorkerError if that fails or the code differs.

        `hang_file`: descriptor of an empty file, to which is written where the event loop hangs; the process ends then, if it
        `ends_itself`.
        """
        settings = loads(setup)
        self._lines = LineWatch(settings["lines"])
        self._lines.begin()
        try:
            self._config = config_from(settings["config"], "setup")
            self._suite, tasks, self._arms = resolve(self._config)
            own = compared(manifest_of(self._config, self._suite, tasks, self._arms))
            self._answering = open_models(self._config, self._arms, settings["models"])
        except WorkerError:
            raise
        except (ValueError, OSError) as error:
            raise WorkerError(one_line(str(error))) from error
        for part, value in settings["manifest"].items():
            if own[part] != value:
                raise WorkerError(f"it has other code or data than this process: {part} changed")
        self._meter = _WorkerMeter(budget_of(self._config.budget), settings["spent"])
        self._hang_file, self._ends_itself = hang_file, ends_itself
        self._queue: asyncio.Queue[list[int]] = asyncio.Queue()
        self._stopped = ""
        """Why no further trial may begin; empty while trials may."""
        self._send: Send

    async def run(self, incoming: AsyncIterator[bytes], send: Send) -> None:
        """Run the trials that `incoming` orders until it says that none will follow, or ends itself."""
        self._send = send
        os.write(self._hang_file, f"{threading.get_ident():016x}\n".encode())
        async with leaving_nothing():
            try:
                with beating(self._beat):
                    async with self._answering.opened() as answers:
                        await self._work(incoming, setting_of(self._config, self._suite, answers, self._meter))
            finally:
                faulthandler.cancel_dump_traceback_later()
        recordings = self._answering.recordings
        replayed, miss = (0, "") if recordings is None else (recordings.replayed, recordings.first_miss)
        self._say({"ended": {"replayed": replayed, "miss": miss}})

    def _beat(self) -> None:
        """Say that the event loop turns, and let `faulthandler`, which no code can hold up, write where it hangs if it does not."""
        faulthandler.dump_traceback_later(self._config.trial_timeout_s, exit=self._ends_itself, file=self._hang_file)
        self._say({})

    async def _work(self, incoming: AsyncIterator[bytes], setting: TrialContext) -> None:
        hearing = asyncio.create_task(self._receive_orders(incoming))
        doing = [hearing, *(asyncio.create_task(self._run_trials(setting)) for _ in range(self._config.in_flight))]
        try:
            done, _ = await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what went wrong, if it did
        finally:
            for task in doing:
                task.cancel()
            await asyncio.gather(*doing, return_exceptions=True)

    async def _receive_orders(self, incoming: AsyncIterator[bytes]) -> None:
        async for message in incoming:
            order = loads(message)
            if "run" in order:
                self._queue.put_nowait(order["run"])
            elif "stop" in order:
                self._stopped = order["stop"]
                self._meter.stopped = order["stop"] if order["at_once"] else self._meter.stopped
            else:
                return

    async def _run_trials(self, setting: TrialContext) -> None:
        while True:
            job, arm, task, repeat, attempt = await self._queue.get()
            try:
                if self._stopped:
                    raise NotRun(self._stopped)
                trial = Trial(self._arms[arm], self._suite.tasks[task], repeat, self._config.seed, attempt)
                finished = await run_trial(trial, setting)
            except NotRun as reason:
                self._say({"not_run": job, "why": str(reason)})
            else:
                self._say({"done": job, "record": finished.record.to_json(), **self._lines.news()}, b"\n" + finished.trace)
            await asyncio.sleep(0)  # a trial without latency never waits: let the others in

    def _say(self, fields: dict[str, Any], trace: bytes = b"") -> None:
        self._send(encoded({**fields, "spent": self._meter.since()}) + trace)


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
