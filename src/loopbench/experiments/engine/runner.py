"""The runner: trials from a schedule, a bounded number in flight, results to the journal as they come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol

from loopbench.metrics.record import Record

from ..journal import Journal
from ..schedule import Trial
from ..trial import Done, NotRun

FIRST_FAILURES = 50
"""Trials after which a run is stopped, to be gone on with, if all of them were errored."""
FIRST_DEATHS = 10
"""The same of one arm, if each of them ended the processes that it ran in: starting new ones would go on for hours."""
DIED = "its worker process died"
"""How the reason of such a trial begins."""


Execute = Callable[[Trial], Awaitable[Done]]
"""Carries a trial out, here or elsewhere. Raises NotRun when the run's budget is used up."""


class Progress(Protocol):
    """Told of what happens in a run."""

    def finished(self, record: Record) -> None:
        """A trial has ended."""

    def noted(self, text: str) -> None:
        """Something that whoever watches should know, in one line: a worker died, a trial was given up."""


class Unwatched:
    """Progress that nobody is told of."""

    def finished(self, record: Record) -> None:
        """Nothing happens."""

    def noted(self, text: str) -> None:
        """Nothing happens."""


async def run_trials(trials: Iterable[Trial], execute: Execute, journal: Journal, progress: Progress, concurrency: int) -> str:
    """Run all trials; gives why it stopped early, or an empty text. A run in which nothing works stops early.

    Cancellation stops at once: trials in flight are not recorded, and run again on resume.
    """
    waiting = iter(trials)
    dead = _DeadEnd()
    stopped: list[str] = []
    running: list[asyncio.Task[None]] = []

    async def worker() -> None:
        for trial in _until(waiting, stopped):
            try:
                done = await execute(trial)
            except NotRun as reason:
                stopped.append(str(reason))
                return
            journal.append(done.record, done.trace)
            progress.finished(done.record)
            if why := dead.shows(done.record):
                stopped.append(why)
                for other in running:  # nothing will come of what is in flight, either
                    if other is not asyncio.current_task():
                        other.cancel()
                return
            await asyncio.sleep(0)  # a trial without latency never waits: let the others, and Ctrl-C, in

    try:
        async with asyncio.TaskGroup() as group:
            running += [group.create_task(worker()) for _ in range(concurrency)]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None  # one failure is told plainly; the others met the same disk
    finally:
        journal.sync()
    return stopped[0] if stopped else ""


class _DeadEnd:
    """Notices what will not come to anything: a run whose server is down or whose key is wrong, an arm that kills its processes."""

    def __init__(self) -> None:
        self._failures = 0
        self._deaths = Counter[str]()
        self._works = set[str]()
        """Arms."""

    def shows(self, record: Record) -> str:
        """Why the run should stop now, in words; empty where it should not."""
        if record.status == "scored":
            self._works.add(record.arm)
        if record.status != "errored":
            return ""
        self._failures += 1
        self._deaths[record.arm] += record.reason.startswith(DIED)
        if record.arm not in self._works and self._deaths[record.arm] == FIRST_DEATHS:
            return f"the first {FIRST_DEATHS} trials of {record.arm} all ended their processes; the last: {record.reason}"
        if not self._works and self._failures == FIRST_FAILURES:
            return f"the first {FIRST_FAILURES} trials all failed, the last because of {record.reason}"
        return ""


def _until(trials: Iterator[Trial], stopped: list[str]) -> Iterator[Trial]:
    for trial in trials:
        if stopped:
            return
        yield trial
