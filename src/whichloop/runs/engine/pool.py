"""Distributes trials to workers, and gets a result for each, even if its worker dies.

A trial that a worker had under way when it died runs again elsewhere; after two such deaths it runs alone on a worker, and after a
third it is recorded as errored. A worker whose event loop has not turned for longer than a trial's time limit is killed, and
what it had under way runs again, each trial alone: one that hangs although it is alone is recorded as that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.trial import FinishedTrial, NotRun, head_of
from whichloop.runs.trial.watchdog import killed

from .job import Job, setup_of
from .messages import START_LIMIT_S, Link, Links, WorkerError, WorkerLost, encoded

LOOK_S = 0.25
"""Seconds between two checks of workers and of the run's budget."""
MAX_AHEAD = 64
"""Maximum number of quick trials that a worker is given ahead of time."""
AHEAD_S = 0.05
"""Seconds of work that a worker is given ahead: far more than a message takes, and a short wait at the end."""
SILENCE_GRACE_S = 10.0
"""Seconds beyond a trial's time limit in which a worker can say itself that it hangs, before it is taken for frozen."""
END_LIMIT_S = 5.0
MAX_DEATHS = 3
"""Worker deaths during the same trial, which ran alone the last time, after which it is given up."""
MAX_IDLE_DEATHS = 5
"""Consecutive idle deaths of workers, beyond the number of workers, after which the run ends."""


@dataclass(slots=True, eq=False)
class Order:
    """A trial that a worker has to return."""

    number: int
    trial: Trial
    message: bytes
    result: asyncio.Future[FinishedTrial]
    deaths: int = 0
    alone: bool = False
    """Whether it runs on a worker that has nothing else."""
    sent_at: float = 0.0
    """Unix time at which it was sent."""


@dataclass(slots=True, eq=False)
class PoolWorker:
    """A worker and its orders."""

    link: Link
    share: int
    """Number of trials that it runs at once."""
    orders: dict[int, Order] = field(default_factory=dict)
    """Orders that it was given and has not returned, in the order in which they were given and are begun."""
    keeping: asyncio.Task[Any] | None = None
    ended: bool = False
    finished: int = 0
    ready_at: float = field(default_factory=time.monotonic)
    heard_at: float = field(default_factory=time.monotonic)
    hangs_at: str | None = None
    """The line of the user's code at which it has said that it hangs."""

    @property
    def running(self) -> list[Order]:
        return list(itertools.islice(self.orders.values(), self.share))

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self.heard_at

    @property
    def room(self) -> int:
        """Return how many more trials it may be given."""
        if any(order.alone for order in self.orders.values()):
            return 0
        per_s = self.finished / max(time.monotonic() - self.ready_at, LOOK_S)
        return self.share + min(MAX_AHEAD, int(AHEAD_S * per_s)) - len(self.orders)


class Pool:
    """Workers, and the trials that they should run."""

    def __init__(self, job: Job, links: Links, note: Callable[[str], None]) -> None:
        """Make a pool inside the running event loop. What trials spend is added to `job.meter`. `note`: told of lost workers."""
        self._job, self._links, self._note = job, links, note
        self._share: int = json.loads(setup_of(job, links.workers))["config"]["concurrency"]
        self._arms = {arm.name: number for number, arm in enumerate(job.arms)}
        self._tasks = {task.id: number for number, task in enumerate(job.suite.tasks)}
        self._worker_numbers, self._order_numbers = itertools.count(1), itertools.count(1)
        self._waiting: deque[Order] = deque()
        self._waiting_alone: deque[Order] = deque()
        self._unfinished: dict[int, Order] = {}
        """All orders that somebody waits for, by number."""
        self._workers: list[PoolWorker] = []
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping: list[asyncio.Task[None]] = []
        self._closing = False
        self._idle_deaths = 0
        self._stop: dict[str, object] = {}
        """The message that no further trial may begin; empty while trials may."""
        self._failed: Exception | None = None

    @property
    def in_flight(self) -> int:
        """Return how many trials to request at once, so that no worker waits for work."""
        config = self._job.config
        ahead = 0 if config.real_models or config.real_time else MAX_AHEAD  # where trials wait, only several at once use the time
        return self._links.workers * (self._share + ahead)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Pool]:
        """Keep the pool and its workers alive within this block. Raises WorkerError if no worker can be had."""
        tasks = [asyncio.create_task(self._watch())]
        tasks += [asyncio.create_task(self._keep_worker()) for _ in range(self._links.workers)]
        try:
            await self._opened
            yield self
            self._closing = True
            for worker in self._workers:
                worker.link.send(_END)
            if ending := [worker.keeping for worker in self._workers if worker.keeping is not None]:
                await asyncio.wait(ending, timeout=END_LIMIT_S)
        finally:
            self._closing = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*self._stopping, return_exceptions=True)

    async def run(self, trial: Trial) -> FinishedTrial:
        """Run one trial, on one worker or, if that is lost, on another. Raises NotRun, and WorkerError if no worker is left."""
        if self._failed is not None:
            raise self._failed
        if self._stop:
            raise NotRun(self._stop["stop"])
        number = next(self._order_numbers)
        place = [number, self._arms[trial.arm.name], self._tasks[trial.task.id], trial.repeat, trial.attempt]
        order = Order(number, trial, encoded({"run": place}), asyncio.get_running_loop().create_future())
        self._unfinished[number] = order
        self._waiting.append(order)
        self._deal()
        try:
            return await order.result
        finally:
            del self._unfinished[number]

    def stop(self, reason: str, *, at_once: bool = False) -> int:
        """Give up the trials that are not begun, and return how many are under way; `at_once`, these may spend nothing more."""
        self._stop = {"stop": reason, "at_once": at_once}
        for worker in self._workers:
            worker.link.send(encoded(self._stop))
        self._deal()
        return sum(len(worker.running) for worker in self._workers)

    # --- handing out ---

    def _deal(self) -> None:
        """Give workers as many trials as they have room for, the least busy first; one of them gets those that must run alone."""
        for order in (*self._waiting, *self._waiting_alone) if self._stop else ():
            if not order.result.done():
                order.result.set_exception(NotRun(self._stop["stop"]))
        workers = list(self._workers)
        if self._waiting_alone and workers:
            free = min(workers, key=lambda worker: len(worker.orders))
            workers.remove(free)  # until it has nothing else
            if not free.orders:
                self._give(free, self._waiting_alone)
        while self._waiting and workers:
            worker = max(workers, key=lambda worker: worker.room)
            if worker.room <= 0:
                return
            self._give(worker, self._waiting)

    def _give(self, worker: PoolWorker, orders: deque[Order]) -> None:
        order = orders.popleft()
        if not order.result.done():  # or whoever asked for it has given up
            worker.orders[order.number] = order
            order.sent_at = time.time()
            worker.link.send(order.message)

    # --- one worker after the other ---

    async def _keep_worker(self) -> None:
        try:
            while not self._closing:
                worker = PoolWorker(self._links.make(next(self._worker_numbers)), self._share)
                try:
                    await self._serve(worker)
                except WorkerLost as lost:
                    if worker.hangs_at is None:
                        worker.hangs_at = await worker.link.hangs_at()
                    self._replace(worker, str(lost))
        except Exception as error:  # WorkerError, or a bug of ours: no trial may wait for ever
            self._fail_all(error)

    async def _serve(self, worker: PoolWorker) -> None:
        """See a worker from its start to its end. Raises WorkerLost and WorkerError."""
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await worker.link.start(setup_of(self._job, self._links.workers))
            worker.ready_at, worker.keeping = time.monotonic(), asyncio.current_task()
            self._workers.append(worker)
            if self._stop:
                worker.link.send(encoded(self._stop))
            if not self._opened.done():
                self._job.meter.begin()
                self._opened.set_result(None)
            self._deal()
            while not worker.ended:
                self._take(worker, await worker.link.receive())
            if worker.orders:
                raise WorkerLost("it ended before its trials did")
        except WorkerError as error:
            raise WorkerError(f"{worker.link.name}: {error}") from None
        except TimeoutError:
            raise WorkerError(f"{worker.link.name}: it was not ready within {START_LIMIT_S:g} s") from None
        finally:
            if worker in self._workers:
                self._workers.remove(worker)
            self._stopping.append(asyncio.create_task(worker.link.stop(kill=not worker.ended)))
            await asyncio.shield(self._stopping[-1])

    def _take(self, worker: PoolWorker, message: bytes) -> None:
        head, _, trace = message.partition(b"\n")
        report = json.loads(head)
        worker.heard_at = time.monotonic()
        self._add_spent(*report["spent"])
        if "lines" in report and self._job.lines is not None:
            self._job.lines.add(report["lines"])
        number = report.get("done", report.get("not_run"))
        if number is not None:
            order = worker.orders.pop(number)
            worker.finished += 1
            self._idle_deaths = 0
            if order.result.done():
                pass
            elif "done" in report:
                order.result.set_result(FinishedTrial(Record.from_json(report["record"]), trace))
            else:
                order.result.set_exception(NotRun(report["why"]))
            self._deal()
        elif "ended" in report:
            worker.ended = True
            recordings = self._job.trial_models.recordings
            if recordings is not None:
                recordings.replayed += report["ended"]["replayed"]
                recordings.first_miss = recordings.first_miss or report["ended"]["miss"]

    def _add_spent(self, calls: int, tokens: int, dollars: float) -> None:
        """Count what was spent, and stop at the end of the run's budget."""
        meter = self._job.meter
        meter.calls += calls
        meter.tokens += tokens
        meter.dollars += dollars
        if self._opened.done() and not self._stop.get("at_once") and (reason := meter.exhausted):
            self.stop(reason, at_once=True)

    # --- what goes wrong ---

    async def _watch(self) -> None:
        limit_s = self._job.config.trial_timeout_s
        try:
            while not self._closing:
                asleep_at = time.monotonic()
                await asyncio.sleep(LOOK_S)
                # A pause of this process is not taken for the workers' silence: what they said is yet to be read.
                pause_s = max(0.0, time.monotonic() - asleep_at - LOOK_S)
                self._add_spent(0, 0, 0.0)
                if self._links.check is not None:
                    await self._links.check()
                for worker in list(self._workers):
                    worker.heard_at += pause_s
                    if worker.orders and worker.silent_s > limit_s:
                        worker.hangs_at = await worker.link.hangs_at()
                        if worker.hangs_at is not None or worker.silent_s > limit_s + SILENCE_GRACE_S:
                            await worker.link.stop(kill=True)
        except Exception as error:  # the place that workers come from is gone, or a bug of ours: no trial may wait for ever
            self._fail_all(error)

    def _replace(self, worker: PoolWorker, why: str) -> None:
        """Have the trials of a lost worker run again, but for those that are given up. Raises WorkerError if every worker dies."""
        limit_s, silent_s, running = self._job.config.trial_timeout_s, worker.silent_s, worker.running
        says_so = worker.hangs_at is not None and silent_s > limit_s / 2  # not after a pause of the whole machine
        hangs = says_so or silent_s > limit_s
        for order in running:
            order.deaths += 1
            if hangs and len(running) == 1 and (says_so or order.alone):
                how = {"reason": killed(silent_s, worker.hangs_at or ""), "stop": StopReason.TIMEOUT.value}
                self._record(order, status="scored", scores={"accuracy": 0.0}, **how)
            elif not hangs and order.alone and order.deaths >= MAX_DEATHS:
                self._record(order, status="errored", reason=f"its worker process died ({why}) three times")
            order.alone = order.alone or hangs or order.deaths >= MAX_DEATHS - 1
        if running and self._job.lines is not None:
            self._job.lines.add(None)  # nobody knows to which lines they came
        how_lost = f"hung for {silent_s:.0f} s, and was killed" if hangs else f"died ({why})"
        again = sum(not order.result.done() for order in running)
        self._note(f"{worker.link.name} {how_lost}; trials that run again: {again}")
        unfinished = [order for order in worker.orders.values() if not order.result.done()]
        self._waiting_alone.extend(order for order in unfinished if order.alone)
        self._waiting.extendleft(order for order in reversed(unfinished) if not order.alone)
        self._deal()
        self._idle_deaths += not running and not worker.finished
        if self._idle_deaths >= MAX_IDLE_DEATHS + self._links.workers:
            raise WorkerError(f"{worker.link.name} died ({why}), as did {self._idle_deaths - 1} before it, and nothing was done")

    def _record(self, order: Order, **fields: Any) -> None:
        if not order.result.done():
            now = time.time()
            times: dict[str, Any] = {
                "started_at": order.sent_at or now,
                "wall_s": now - (order.sent_at or now),
                "attempt": order.trial.attempt,
            }
            order.result.set_result(FinishedTrial(Record(**head_of(order.trial, self._job.suite), **times, **fields)))

    def _fail_all(self, error: Exception) -> None:
        self._failed = self._failed or error
        if not self._opened.done():
            self._opened.set_exception(error)
        for order in self._unfinished.values():
            if not order.result.done():
                order.result.set_exception(error)


_END = encoded({"end": True})
