"""The engine that carries out a run's trials: this process, worker processes, or a Ray cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from whichloop.runs.config import CompareConfig
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.setting import FinishedTrial, NotRun, TrialContext
from whichloop.runs.trial.trial import run_trial
from whichloop.runs.trial.watchdog import Watch

from .forked import ForkedWorker
from .interruption import INTERRUPTED
from .job import Job, setting_of
from .leftovers import Abandoned, Leftovers
from .messages import Links
from .pool import Pool
from .processes import ProcessLink
from .runner import Execute, Progress


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
async def opened(job: Job, progress: Progress, forks: Sequence[ForkedWorker] = ()) -> AsyncIterator[Engine]:
    """Keep an engine open within this block. `forks`: the first workers. Raises WorkerError if no worker can be had."""
    abandoned = Abandoned()
    try:
        if not job.config.is_spread:
            async with _here(job, progress) as setting:
                yield Engine(partial(run_trial, setting=setting), job.config.in_flight, abandoned, progress)
            return
        with _links(job.config, forks) as links:
            async with Pool(job, links, progress).opened() as pool:
                yield Engine(pool.run, pool.in_flight, abandoned, progress, pool)
    finally:
        for line in abandoned.lines():
            progress.noted(line)


@contextmanager
def _links(config: CompareConfig, forks: Sequence[ForkedWorker]) -> Iterator[Links]:
    """Return where the run's workers come from. Raises WorkerError if none can be had."""
    if config.engine == "local":
        assert config.workers is not None
        yield Links(lambda number: ProcessLink(number, forks[number - 1] if number <= len(forks) else None), config.workers)
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
