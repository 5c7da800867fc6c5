"""A comparison carried out: what is missing of a run is run, look by look where it is looked at on its way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loopbench.models.metering import Meter

from .engine.engines import Job, budget_of, opened
from .engine.runner import Execute, Progress, run_trials
from .journal import Journal, read_records
from .preparing import Experiment
from .results import looked_at, looks_of, results


def run(experiment: Experiment, progress: Progress) -> str:
    """Run what is missing; gives why it stopped early, or an empty text. KeyboardInterrupt leaves a resumable run."""
    return asyncio.run(_run(experiment, progress))


async def _run(experiment: Experiment, progress: Progress) -> str:
    stopped = "interrupted"
    try:
        with Journal(experiment.folder) as journal:
            # Read again under the lock: another process may have gone on with this run in the meantime.
            current = replace(experiment, finished=tuple(read_records(experiment.folder)))
            async with opened(job_of(current), progress) as execute:
                stopped = await _run_to_a_decision(current, execute, journal, progress)
    finally:
        experiment.answering.close(whole=not stopped)
    return stopped


async def _run_to_a_decision(experiment: Experiment, execute: Execute, journal: Journal, progress: Progress) -> str:
    """Run what is missing: all of it, or where the run is looked at on its way, look by look until every pair is decided.

    The look that an earlier sitting had reached is taken again, on the same records: a kill may have come before it.
    """
    todo, looks, in_flight = experiment.missing(), looks_of(experiment.manifest), experiment.config.in_flight
    if looks is None:
        return await run_trials(todo, execute, journal, progress, in_flight)
    first = max(1, looked_at(looks, experiment.finished, experiment.manifest).reached)
    for look in range(first, looks.count + 1):
        stage = [trial for trial in todo if max(first, looks.look_of(trial.task.id)) == look]
        stopped = await run_trials(stage, execute, journal, progress, in_flight)
        if stopped or results(experiment.folder).is_complete:
            return stopped
    return ""


def job_of(experiment: Experiment) -> Job:
    """What an engine is to know of a run."""
    config = experiment.config
    return Job(
        config, experiment.suite, experiment.arms, experiment.manifest, experiment.answering, Meter(budget_of(config.budget))
    )
