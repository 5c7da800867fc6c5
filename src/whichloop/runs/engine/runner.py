"""Run the trials of a schedule, a bounded number at once, and write results to the journal as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
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
    """Run all trials; gives why it stopped early, or an empty text. A run in which nothing works stops early.

    Cancellation stops at once: trials in flight are not recorded, and run again on resume.
    """
    waiting = iter(trials)
    dead_end = _DeadEnd()
    stopped: list[str] = []

    async def worker() -> None:
        for trial in _until(waiting, stopped):
            try:
                finished = await execute(trial)
            except NotRun as reason:
                stopped.append(str(reason))
                return
            journal.append(finished.record, finished.trace)
            progress.finished(finished.record)
            if dead_end.shows(finished.record):
                stopped.append(f"the first {FIRST_FAILURES} trials all failed, the last because of {finished.record.reason}")
                return
            await asyncio.sleep(0)  # a trial without latency never waits: let the others, and Ctrl-C, in

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(1, concurrency + 1):
                group.create_task(worker())
                if number % SLICE == 0:
                    await asyncio.sleep(0)
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None  # one failure is told plainly; the others met the same disk
    finally:
        journal.sync()
    return stopped[0] if stopped else ""


class _DeadEnd:
    """Notices a run in which every trial will fail, because of a server that is down or a wrong key."""

    def __init__(self) -> None:
        self.failures = 0
        self.works = False

    def shows(self, record: Record) -> bool:
        self.works = self.works or record.status == "scored"
        self.failures += record.status == "errored"
        return not self.works and self.failures == FIRST_FAILURES


def _until(trials: Iterator[Trial], stopped: list[str]) -> Iterator[Trial]:
    for trial in trials:
        if stopped:
            return
        yield trial
