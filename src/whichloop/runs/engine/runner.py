"""Run the trials of a schedule, a bounded number at once, and write results to the journal as they come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from whichloop.metrics.record import Record
from whichloop.runs.schedule import Trial
from whichloop.runs.store.trials import TrialWriter
from whichloop.runs.trial.trial import FinishedTrial, NotRun

FIRST_FAILURES = 50
"""First trials of a run that stop it, to be resumed later, if all of them were errored."""

SLICE = 16
"""Most trials that begin in one turn of the event loop: were it all of them, the first reply would wait for the last to begin."""


Execute = Callable[[Trial], Awaitable[FinishedTrial]]
"""Runs a trial, here or elsewhere. Raises NotRun when the run's budget is used up."""


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
        """Handle it as any other note."""
        self.noted(text)


async def run_trials(trials: Iterable[Trial], execute: Execute, journal: TrialWriter, progress: Progress, concurrency: int) -> str:
    """Run all trials; gives why it stopped early, or an empty text. A run in which nothing works, as with a wrong key, stops early.

    Cancellation stops at once: trials in flight are not recorded, and run again on resume.
    """
    waiting, stopped, statuses = iter(trials), "", Counter[str]()

    async def work() -> None:
        nonlocal stopped
        for trial in waiting:
            if stopped:
                return
            try:
                finished = await execute(trial)
            except NotRun as reason:
                stopped = stopped or str(reason)
                return
            record = finished.record
            journal.append(record, finished.trace)
            progress.finished(record)
            statuses[record.status] += 1
            if record.status == "errored" and statuses["errored"] == FIRST_FAILURES and not statuses["scored"]:
                stopped = stopped or f"the first {FIRST_FAILURES} trials all failed, the last because of {record.reason}"
            await asyncio.sleep(0)  # a trial without latency never waits: let the others, and Ctrl-C, in

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(1, concurrency + 1):
                group.create_task(work())
                if number % SLICE == 0:
                    await asyncio.sleep(0)
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None  # one failure is told plainly; the others met the same disk
    finally:
        journal.sync()
    return stopped
