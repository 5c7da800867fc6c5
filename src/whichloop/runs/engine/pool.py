"""Distributes trials to workers, and gets a result for each, even if its worker dies.

A trial that a worker had under way when it died runs again elsewhere; after two such deaths it runs alone on a worker, and if that
one dies too, it is recorded as errored. A worker that has said nothing, or whose event loop has not turned, for longer than a
trial's time limit is killed, and what it had under way runs again, each trial alone: one that is stuck although it is alone has let
nothing else run, and is recorded as that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from operator import attrgetter
from typing import Any

from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.runs.schedule import Trial
from whichloop.runs.silent_end import killed
from whichloop.runs.trial.loop_run import LeftBehind
from whichloop.runs.trial.trial import FinishedTrial, NotRun, head_of
from whichloop.runs.trial.watchdog import HANGS_S, blocked_line

from .job import Job, setup_of
from .messages import Link, Links, WorkerError, WorkerLost, encoded
from .pool_worker import LOOK_S, MAX_AHEAD, ArmDeaths, Order, PoolWorker
from .runner import Progress

SILENCE_GRACE_S = 10.0
"""Seconds beyond a trial's time limit before a worker that says nothing counts as stuck."""
START_LIMIT_S = 300.0
END_LIMIT_S = 5.0
MAX_DEATHS = 3
"""Worker deaths during the same trial, which ran alone the last time, after which it is given up."""
MAX_IDLE_DEATHS = 5
"""Consecutive idle deaths of workers, beyond the number of workers, after which the run ends."""
MAX_THREADS = 64
"""Maximum number of threads with calls that never returned; a worker with more of them is replaced."""


class Pool:
    """Workers, and the trials that they should run."""

    def __init__(self, job: Job, links: Links, progress: Progress) -> None:
        """Make a pool inside the running event loop. What trials spend is added to `job.meter`."""
        self._job = job
        self._links = links
        self._progress = progress
        self._share: int = json.loads(setup_of(job, links.workers))["config"]["concurrency"]
        self._arms = {arm.name: number for number, arm in enumerate(job.arms)}
        self._tasks = {task.id: number for number, task in enumerate(job.suite.tasks)}
        self._worker_numbers = itertools.count(1)
        self._order_numbers = itertools.count(1)
        self._waiting_orders: deque[Order] = deque()
        self._alone_orders: deque[Order] = deque()
        self._reserved: PoolWorker | None = None
        """The worker that is reserved for trials that must run alone."""
        self._workers: list[PoolWorker] = []
        """The workers that are ready."""
        self._stopping: set[asyncio.Task[None]] = set()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = False
        self._idle_deaths = 0
        self._arm_deaths = ArmDeaths()
        self._stopped = ""
        """Why no further trial may begin; empty while trials may."""
        self._is_exhausted = False
        """Whether the run's budget is used up, so that trials under way may spend nothing more."""
        self._failed: Exception | None = None
        self._left_behind = LeftBehind()

    @property
    def in_flight(self) -> int:
        """Return how many trials to request at once, so that no worker waits for work."""
        return self._links.workers * (self._share + (0 if self._trials_wait else MAX_AHEAD))

    @property
    def _trials_wait(self) -> bool:
        """Whether trials wait, for a model or for simulated delays, so that only several at once use the time."""
        config = self._job.config
        return bool(config.real_models) or config.real_time

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
                worker.takes_no_more = True
                worker.send(_END)
            ending = [worker.keeping for worker in self._workers if worker.keeping is not None]
            if ending:
                await asyncio.wait(ending, timeout=END_LIMIT_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*self._stopping, return_exceptions=True)
            for line in self._left_behind.lines():
                self._progress.noted(line)

    async def run(self, trial: Trial) -> FinishedTrial:
        """Run one trial, on one worker or, if that is lost, on another. Raises NotRun, and WorkerError if no worker is left."""
        if self._failed is not None:
            raise self._failed
        if self._stopped:
            raise NotRun(self._stopped)
        number = next(self._order_numbers)
        place = [number, self._arms[trial.arm.name], self._tasks[trial.task.id], trial.repeat, trial.attempt]
        order = Order(number, trial, encoded({"run": place}), asyncio.get_running_loop().create_future())
        self._waiting_orders.append(order)
        if self._arm_deaths.reason(trial.arm.name):
            self._give_up_arms()
        self._deal()
        return await order.result

    def wind_down(self, reason: str) -> int:
        """Give up the trials that no worker has begun, and return how many are under way; they may end."""
        self._stopped = self._stopped or reason
        for worker in self._workers:
            worker.send(encoded({"last": reason}))
        self._refuse_waiting()
        return sum(worker.running for worker in self._workers)

    # --- handing out ---

    def _deal(self) -> None:
        """Give workers as many trials as they have room for, the least busy first."""
        self._deal_alone()
        while self._waiting_orders and self._workers:
            worker = max(self._workers, key=attrgetter("room"))
            if worker.room <= 0:
                return
            self._give(worker, self._waiting_orders)

    def _deal_alone(self) -> None:
        """Keep a worker free of everything else while there are trials to run alone."""
        if self._reserved is None and self._alone_orders:
            free = [worker for worker in self._workers if not worker.takes_no_more]
            if free:
                self._reserved = min(free, key=lambda worker: len(worker.orders))
                self._reserved.takes_no_more = True
        if self._reserved is None:
            return
        while self._alone_orders and not self._reserved.orders:  # an order that was given up leaves it free for the next one
            self._give(self._reserved, self._alone_orders)
        if not self._reserved.orders:
            self._reserved.takes_no_more, self._reserved = False, None

    def _give(self, worker: PoolWorker, orders: deque[Order]) -> None:
        order = orders.popleft()
        if not order.result.done():  # or whoever asked for it has given up
            worker.orders[order.number] = order
            order.sent_at = time.time()
            worker.send(order.message)

    # --- one worker after the other ---

    async def _keep_worker(self) -> None:
        """Keep a worker alive, and replace it whenever it is lost."""
        try:
            while not self._closing:
                worker = PoolWorker(self._links.make(next(self._worker_numbers)), self._share, one_at_a_time=not self._trials_wait)
                try:
                    await self._serve(worker)
                except WorkerLost as lost:
                    self._replace_lost(worker, str(lost))
        except Exception as error:  # WorkerError, or a bug of ours: no trial may wait for ever
            self._fail_all(error)

    async def _serve(self, worker: PoolWorker) -> None:
        """See a worker from its start to its end. Raises WorkerLost and WorkerError."""
        posting = asyncio.create_task(worker.post())
        try:
            await self._greet(worker.link)
            worker.ready_at, worker.keeping = time.monotonic(), asyncio.current_task()
            worker.listening = asyncio.create_task(self._listen(worker))
            self._workers.append(worker)
            if self._stopped:
                worker.send(encoded({"stop": self._stopped}))
            if not self._opened.done():
                self._job.meter.begin()
                self._opened.set_result(None)
            self._deal()
            await asyncio.wait([worker.listening])
            if not worker.stuck:
                worker.listening.result()
            if worker.orders:
                raise WorkerLost("it ended before its trials did")
        finally:
            self._forget(worker)
            posting.cancel()
            if worker.listening is not None:
                worker.listening.cancel()
            stopping = asyncio.create_task(worker.link.stop(kill=not worker.ended))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
            await asyncio.shield(stopping)

    async def _greet(self, link: Link) -> None:
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await link.start(setup_of(self._job, self._links.workers))
        except WorkerError as error:
            raise WorkerError(f"{link.name}: {error}") from None
        except TimeoutError:
            raise WorkerLost(f"it was not ready within {START_LIMIT_S:g} s") from None

    async def _listen(self, worker: PoolWorker) -> None:
        while not worker.ended:
            self._take_message(worker, await worker.link.receive())

    def _forget(self, worker: PoolWorker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        if worker is self._reserved:
            self._reserved = None

    # --- what workers say ---

    def _take_message(self, worker: PoolWorker, message: bytes) -> None:
        head, _, trace = message.partition(b"\n")
        report = json.loads(head)
        worker.silent_s, worker.stuck_s, worker.stuck_at = 0.0, report.get("stuck", 0.0), report.get("at", "")
        worker.is_told = worker.is_told and worker.stuck_s > 0
        if "lines" in report and self._job.lines is not None:
            self._job.lines.add(report["lines"])
        if "done" in report:
            self._trial_ended(worker, report["done"], FinishedTrial(Record.from_json(report["record"]), trace))
        elif "not_run" in report:
            self._trial_ended(worker, report["not_run"], NotRun(report["why"]))
        elif "spent" in report:
            self._add_spent(*report["spent"])
        elif "threads" in report:
            # Calls of the trials under way count among its threads and may still return: as many are allowed for each such trial.
            worker.worn_out = worker.worn_out or report["threads"] > MAX_THREADS * (1 + report["alive"])
            self._retire(worker)
        elif "ended" in report:
            self._worker_ended(report["ended"])
            worker.ended = True

    def _trial_ended(self, worker: PoolWorker, number: int, outcome: FinishedTrial | NotRun) -> None:
        order = worker.orders.pop(number)
        worker.finished += 1
        if not self._trials_wait and isinstance(outcome, FinishedTrial):
            worker.one_at_a_time = outcome.record.stop == StopReason.TIMEOUT
        self._idle_deaths = 0
        self._arm_deaths.trial_ended(order.trial.arm.name)
        if not order.result.done():
            if isinstance(outcome, NotRun):
                order.result.set_exception(outcome)
            else:
                order.result.set_result(outcome)
        self._retire(worker)
        self._deal()

    def _retire(self, worker: PoolWorker) -> None:
        """Let a worn-out worker finish its trials and end."""
        if not worker.worn_out:
            return
        if worker is self._reserved:
            self._reserved = None
        worker.takes_no_more = True
        if not worker.orders:
            worker.worn_out = False
            worker.send(_END)

    def _add_spent(self, calls: int, tokens: int, dollars: float) -> None:
        meter = self._job.meter
        meter.calls += calls
        meter.tokens += tokens
        meter.dollars += dollars
        self._check_budget()

    def _check_budget(self) -> None:
        reason = self._job.meter.exhausted
        if not reason or self._is_exhausted or not self._opened.done():
            return
        self._stopped, self._is_exhausted = reason, True
        for worker in self._workers:
            worker.send(encoded({"stop": reason}))
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Give up the trials that no worker has begun."""
        for order in (*self._waiting_orders, *self._alone_orders):
            if not order.result.done():
                order.result.set_exception(NotRun(self._stopped))
        self._waiting_orders.clear()
        self._alone_orders.clear()

    def _worker_ended(self, farewell: dict[str, Any]) -> None:
        self._left_behind += LeftBehind(farewell["threads"], farewell["tasks"])
        for line in farewell["said"]:
            self._progress.noted(line)
        cassette = self._job.trial_models.cassette
        if cassette is not None:
            cassette.tally.hits += farewell["replayed"]
            cassette.tally.first_miss = cassette.tally.first_miss or farewell["miss"]

    # --- what goes wrong ---

    async def _watch(self) -> None:
        """Check the budget and look for stuck workers at regular times."""
        try:
            looked_at = time.monotonic()
            while True:
                await asyncio.sleep(LOOK_S)
                now = time.monotonic()
                # A pause of this process, however long, is not taken for the workers' silence: what they said is yet to be read.
                elapsed_s, looked_at = min(now - looked_at, 2 * LOOK_S), now
                self._check_budget()
                for worker in list(self._workers):
                    worker.silent_s += elapsed_s
                    if worker.stuck_s >= min(HANGS_S, self._job.config.trial_timeout_s / 2) and not worker.is_told:
                        worker.is_told = True
                        self._progress.noted(f"{worker.link.name}: {blocked_line(worker.stuck_s, worker.stuck_at)}")
                    if worker.is_hopeless(self._job.config.trial_timeout_s, SILENCE_GRACE_S):
                        self._kill(worker, worker.stuck_s + worker.silent_s)
        except Exception as error:  # a bug of ours: no trial may wait for ever
            self._fail_all(error)

    def _replace_lost(self, worker: PoolWorker, why: str) -> None:
        """Redistribute the trials of a worker that has died. Raises WorkerError if every worker dies."""
        orders = list(worker.orders.values())
        running = orders[: worker.running]
        for order in running:
            order.deaths += 1
            if order.alone and order.deaths >= MAX_DEATHS:
                self._record_unfinished(order, status="errored", reason=f"its worker process died ({why}) three times")
            order.alone = order.alone or order.deaths >= MAX_DEATHS - 1
        if arm := self._arm_deaths.worker_died([order.trial.arm.name for order in running], why):
            self._progress.noted(f"{arm} is given up, because its trials end their workers; those that are left are errored")
        given_up = [f"{' '.join(map(str, order.trial.key))} was given up" for order in running if order.result.done()]
        self._lines_are_lost(running)
        self._requeue(orders)
        self._idle_deaths += not running and not worker.finished
        if self._idle_deaths >= MAX_IDLE_DEATHS + self._links.workers:
            raise WorkerError(f"{worker.link.name} died ({why}), as did {self._idle_deaths - 1} before it, and nothing was done")
        self._progress.noted(f"{worker.link.name} died ({why}); {', '.join(given_up) or _fate_of(running)}")

    def _kill(self, worker: PoolWorker, stuck_s: float) -> None:
        """Kill a worker that is stuck."""
        orders = list(worker.orders.values())
        running = orders[: worker.running]
        # A worker that says of itself that its event loop is stuck is alive, and its trial to blame. One that says nothing may be
        # frozen, with its machine: its trial is to blame once that has happened to it again, alone.
        blamed = len(running) == 1 and (worker.stuck_s > worker.silent_s or running[0].alone)
        for order in running:
            order.deaths += 1
            order.alone = True
        if blamed:
            reason = killed(stuck_s, worker.stuck_at)
            self._record_unfinished(
                running[0], status="scored", reason=reason, stop=StopReason.TIMEOUT.value, scores={"accuracy": 0.0}
            )
        self._lines_are_lost(running)
        worker.stuck = True
        worker.orders.clear()
        self._forget(worker)
        self._requeue(orders)
        self._progress.noted(f"{worker.link.name} was stuck for {stuck_s:.0f} s, and was killed; {_fate_of(running)}")
        if worker.listening is not None:
            worker.listening.cancel()

    def _lines_are_lost(self, running: list[Order]) -> None:
        """Note that nobody knows which lines these trials came to, of which a lost worker would have told with their results."""
        if running and self._job.lines is not None:
            self._job.lines.add(None)

    def _requeue(self, orders: Iterable[Order]) -> None:
        """Queue a lost worker's trials before all others."""
        unfinished = [order for order in orders if not order.result.done()]
        self._alone_orders.extend(order for order in unfinished if order.alone)
        self._waiting_orders.extendleft(order for order in reversed(unfinished) if not order.alone)
        self._give_up_arms()
        if self._stopped:
            self._refuse_waiting()
        self._deal()

    def _give_up_arms(self) -> None:
        """Record the trials as errored that wait for a worker and whose arm has ended too many."""
        for waiting in (self._waiting_orders, self._alone_orders):
            for order in [order for order in waiting if self._arm_deaths.reason(order.trial.arm.name)]:
                waiting.remove(order)
                self._record_unfinished(order, status="errored", reason=self._arm_deaths.reason(order.trial.arm.name))

    def _record_unfinished(self, order: Order, **fields: Any) -> None:
        """Record what is known about a trial that no worker could finish."""
        if order.result.done():
            return
        now = time.time()
        started_at = order.sent_at or now
        head = head_of(order.trial, self._job.suite)
        record = Record(**head, started_at=started_at, wall_s=now - started_at, attempt=order.trial.attempt, **fields)
        order.result.set_result(FinishedTrial(record))

    def _fail_all(self, error: Exception) -> None:
        """Fail every trial that is waited for, since no worker can be had any more."""
        self._failed = self._failed or error
        if not self._opened.done():
            self._opened.set_exception(error)
        handed_out = (order for worker in self._workers for order in worker.orders.values())
        for order in (*self._waiting_orders, *self._alone_orders, *handed_out):
            if not order.result.done():
                order.result.set_exception(error)


def _fate_of(running: Iterable[Order]) -> str:
    """Return what becomes of the trials that a lost worker had under way: those that are not given up run again."""
    again = sum(not order.result.done() for order in running)
    if again == 0:
        return "nothing has to run again"
    return "the trial that it had under way runs again" if again == 1 else f"{again} trials that it had under way run again"


_END = encoded({"end": True})
