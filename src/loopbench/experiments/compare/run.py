"""A comparison carried out: what is missing of a run is run, look by look where it is looked at on its way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from loopbench.metrics.sequential import Looks, looked
from loopbench.models.metering import Meter
from loopbench.runs.engine.engine import Engine, opened
from loopbench.runs.engine.job import Job, budget_of
from loopbench.runs.engine.runner import Progress, run_trials
from loopbench.runs.manifest import Manifest, RunNote, SuiteEntry, read_manifest, write_manifest
from loopbench.runs.run_state import Spent, read_state
from loopbench.runs.schedule import Trial
from loopbench.runs.store.files import CutShort, RunError
from loopbench.runs.store.journal import Journal
from loopbench.runs.store.traces import TracePolicy

from .prepare import Experiment
from .results import results


def run(experiment: Experiment, progress: Progress) -> str:
    """Run what is missing; return why it stopped early, or an empty text. KeyboardInterrupt leaves a resumable run.

    Raises CutShort where the disk is full, or where a design has ended this process's event loop.
    """
    here = Path.cwd()
    try:
        return asyncio.run(_run(replace(experiment, folder=experiment.folder.resolve()), progress))
    except SystemExit as left:  # out of a task or a callback: what leaves `run` itself is a crash of the trial
        raise _ended_by(f"called sys.exit({left.code!r})", experiment) from None
    except asyncio.CancelledError:
        raise _ended_by("cancelled all that runs", experiment) from None
    except RuntimeError as error:
        if "Event loop stopped" not in str(error):
            raise
        raise _ended_by("stopped the event loop", experiment) from None
    finally:
        os.chdir(here)  # a design may have gone elsewhere


def _ended_by(what: str, experiment: Experiment) -> CutShort:
    why = f"code of a loop or a tool {what}, which ended the run; --workers N keeps such code in processes of its own"
    return CutShort(f"{experiment.folder}: {why}; what had finished is kept, and the run can be resumed")


async def _run(experiment: Experiment, progress: Progress) -> str:
    stopped = "interrupted"
    try:
        with Journal(experiment.folder, _trace_policy(experiment)) as journal:
            # Read again under the lock: another process may have gone on with this run in the meantime.
            current = _read_again(experiment)
            stopped = await _session(current, journal, progress)
    finally:
        experiment.trial_models.close(whole=not stopped)
    return stopped


def _trace_policy(experiment: Experiment) -> TracePolicy:
    """Return which traces the run keeps."""
    config = experiment.config
    if not config.traces.startswith("sample"):
        return TracePolicy(config.traces)
    cells = ((task.id, repeat) for task in experiment.tasks for repeat in range(config.repeats))
    return TracePolicy.of(config.traces, cells, config.seed)


def _read_again(experiment: Experiment) -> Experiment:
    """Return the run as it stands. Raises RunError if it was extended, or its answers were judged again, meanwhile."""
    folder, now = experiment.folder, read_manifest(experiment.folder)
    if _schedule_of(experiment.manifest) != _schedule_of(now):
        raise RunError(f"{folder}: another process has changed this run meanwhile; type the command again")
    return replace(experiment, manifest=now, past=read_state(folder, experiment.past))


def _schedule_of(manifest: Manifest) -> tuple[list[str], SuiteEntry, int]:
    return [arm.arm for arm in manifest.arms], manifest.suite, manifest.settings.repeats


async def _session(experiment: Experiment, journal: Journal, progress: Progress) -> str:
    """Run what is missing, unless the run's budget is used up already, and write down what was cut short."""
    if not experiment.missing() or (experiment.manifest.looks is not None and results(experiment.folder).is_complete):
        return ""
    job = job_of(experiment)
    if job.meter.exhausted:
        return job.meter.exhausted
    began, stopped = time.monotonic(), "interrupted"
    try:
        async with opened(job, progress) as engine:
            began = time.monotonic()
            experiment = _with_retries_noted(experiment)
            stopped = await _run_to_a_decision(experiment, engine, journal, progress)
    finally:
        if stopped:
            _note_cut_short(experiment, job.meter, time.monotonic() - began)
    return stopped


async def _run_to_a_decision(experiment: Experiment, engine: Engine, journal: Journal, progress: Progress) -> str:
    """Run what is missing: all of it, or look by look until every pair is decided, if the run is looked at on its way.

    The look that an earlier session had reached is taken again, on the same records: a kill may have come before it.
    """
    missing, looks, in_flight = experiment.missing(), experiment.manifest.looks, engine.in_flight
    if looks is None:
        return await run_trials(missing, engine, journal, progress, in_flight)
    first = max(1, _reached(experiment, looks))
    for look in range(first, looks.count + 1):
        stopped = await run_trials(_of_look(missing, looks, look, first), engine, journal, progress, in_flight)
        if stopped or results(experiment.folder).is_complete:
            return stopped
    return ""


def _of_look(missing: Iterable[Trial], looks: Looks, look: int, first: int) -> Iterable[Trial]:
    return (trial for trial in missing if max(first, looks.look_of(trial.task.id)) == look)


def _reached(experiment: Experiment, looks: Looks) -> int:
    """Return the last look that an earlier session has come to."""
    per_task = len(experiment.arms) * experiment.config.repeats
    return looked(looks, Counter(task for _, task, _ in experiment.past.ended), per_task).reached


def job_of(experiment: Experiment) -> Job:
    """Return what an engine has to know of a run."""
    config, spent = experiment.config, experiment.spent
    meter = Meter(budget_of(config.budget))
    meter.calls, meter.tokens, meter.dollars, meter.earlier_s = spent.calls, spent.tokens, spent.dollars, spent.seconds
    return Job(config, experiment.suite, experiment.arms, experiment.manifest, experiment.trial_models, meter)


# --- what is added to the manifest ---


def _with_retries_noted(experiment: Experiment) -> Experiment:
    """RunNote retries before they begin: results that owe something to a second chance say so for good."""
    favoured = experiment.missing().favoured
    if not favoured:
        return experiment
    note = RunNote.now(what=experiment.retry, trials=favoured)
    manifest = experiment.manifest.model_copy(update={"retried": (*experiment.manifest.retried, note)})
    write_manifest(experiment.folder, manifest)
    return replace(experiment, manifest=manifest)


def _note_cut_short(experiment: Experiment, meter: Meter, seconds: float) -> None:
    """Write down what the run has spent that the records on the disk do not show. `seconds`: how long this session took."""
    spent = Spent(meter.calls, meter.tokens, meter.dollars, experiment.spent.seconds + seconds)
    cut_short = experiment.manifest.cut_short
    lost = spent.beyond(read_state(experiment.folder).spent + cut_short)
    if lost.calls:
        with contextlib.suppress(OSError):  # the disk is full, which is reported already
            write_manifest(experiment.folder, experiment.manifest.model_copy(update={"cut_short": cut_short + lost}))
