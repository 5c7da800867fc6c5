"""Preparing a run, for which everything is looked up and its directory made, and running its missing trials."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from whichloop._extras import is_installed, missing
from whichloop.checks import suite as checks
from whichloop.datasets.task import Suite, Task
from whichloop.metrics.caveats import listed_names
from whichloop.models.metering import Meter
from whichloop.models.profiles import load_profile
from whichloop.protocol import ForeignLoop
from whichloop.protocol.names import parse_spec
from whichloop.runs.built_in import is_foreign
from whichloop.runs.config import CompareConfig, ProviderConfig, typed_words
from whichloop.runs.engine.job import Job, SeenLines
from whichloop.runs.engine.runner import Progress, opened
from whichloop.runs.folders import new_folder
from whichloop.runs.lookup import check_answers, check_calls, check_plans, check_tasks, check_user, resolve
from whichloop.runs.manifest import Manifest, RunNote, Spent, read_manifest, write_manifest
from whichloop.runs.new_manifest import manifest_of, question_digests
from whichloop.runs.permissions import own_code, with_worker_process
from whichloop.runs.registry import is_generated, make_loop, specs_in
from whichloop.runs.schedule import Arm, PendingTrials, Retry, RunState, form_of, read_state, schedule
from whichloop.runs.store.files import CutShort, RunError, TracePolicy
from whichloop.runs.store.trials import TrialWriter
from whichloop.runs.trial.trial import budget_of
from whichloop.runs.trial.watchdog import INTERRUPTED, Interruption, told_of_exit
from whichloop.runs.trial_models import TrialModels, open_models, with_scripted_price

from .measured_forms import applies
from .results import results

LISTED = ("loops", "models", "profiles")
RECORDED = (
    *(*LISTED, "suite", "data", "tools", "quarantine", "split", "tasks", "skip_unplanned", "repeats", "seed", "user", "base_url"),
    *("cassette", "max_tool_steps", "trial_budget", "trial_timeout_s", "tool_timeout_s", "alpha", "margin", "real_time"),
)
"""Settings that decide what a recording has to hold, or how its run is read."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run that is ready to start: everything is looked up, the directory is created."""

    folder: Path
    config: CompareConfig
    """The configuration of this session, which may have other workers or another budget than the manifest."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    manifest: Manifest
    trial_models: TrialModels = field(default_factory=TrialModels)
    past: RunState = field(default_factory=RunState)
    """The trials of earlier sessions."""
    retry: Retry | None = None
    """The trials to run again on request."""
    lines: SeenLines | None = None
    """Collects which lines of some files the trials come to in workers; None where nobody asks."""

    @property
    def trials(self) -> int:
        """Number of trials in the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    @property
    def spent(self) -> Spent:
        """The known spending of earlier sessions."""
        return self.past.spent + self.manifest.cut_short

    def missing(self) -> PendingTrials:
        """Return the trials without a record, and those to run again."""
        scheduled = partial(schedule, self.arms, self.tasks, self.config.repeats, self.config.seed)
        return PendingTrials(scheduled, self.trials, self.past, self.retry)


def without_formless(config: CompareConfig) -> tuple[CompareConfig, str]:
    """Return a configuration without those of the default loops that no measured profile by form fits, and a note that says so.

    Loops that were chosen stay: such a one is an error of `prepare`.
    """
    by_form = [name for name in config.profiles if load_profile(name).by_form]
    if "loops" in config.model_fields_set or not by_form:
        return config, ""
    fits = {loop: bool(form_of(make_loop(parse_spec(loop)))) for loop in config.loops}
    left_out = [loop for loop, is_fit in fits.items() if not is_fit]
    fitting_loops = tuple(loop for loop, is_fit in fits.items() if is_fit)
    why = f"has calls in both forms, and {listed_names(by_form)} takes loops of one form each"
    return config.model_copy(
        update={"loops": fitting_loops}
    ), f"left out: {listed_names(left_out)}, which {why}" if left_out else ""


def prepare(config: CompareConfig, folder: Path | None = None, *, is_compared: bool = True) -> Experiment:
    """Look everything up and create the run directory, `folder` or a new one. `is_compared`: its arms are, and not held to others.

    Raises ValueError for bad input, without creating anything: in a run of its own, for more tasks than there are too, and where no
    profile applies to any loop.
    """
    if config.engine == "ray" and not is_installed("ray"):
        raise missing("the engine ray", "ray")
    config = with_scripted_price(config)
    suite, tasks, arms = resolve(config)
    if folder is None:
        check_tasks(config, tasks)
    check_plans(config, suite, tasks)
    check_answers(config, suite, tasks)
    check_calls(config, suite, tasks)
    check_user(config, suite, tasks)
    models = open_models(config, arms)
    parts: dict[str, Any] = {
        **question_digests(config, suite, tasks),
        "models": models.as_manifest(),
        "suite_problems": checks.quick_problems(suite, tasks),
    }
    manifest = manifest_of(config, suite, tasks, arms).model_copy(update=parts)
    infos = [arm.info(suite.name) for arm in manifest.arms]
    if folder is None and is_compared and not any(map(applies, infos)):
        raise ValueError(
            f"profiles: {listed_names(list(dict.fromkeys(info.profile for info in infos)))} apply to no loop of this run"
        )
    folder = new_folder(config.runs, suite.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest)
    return Experiment(folder, config, suite, tasks, arms, manifest, models)


def recording_command(config: CompareConfig) -> str:
    """Return the command that records what a run's recording lacks."""
    config, words = config.model_copy(update={"base_url": config.public()["base_url"]}), list[str]()
    provider = ("provider.", config.provider, ProviderConfig(), ProviderConfig.model_fields)
    for section, chosen, usual, names in (("", config, CompareConfig(), RECORDED), provider):
        for name in names:
            value = getattr(chosen, name)
            if name in LISTED or value != getattr(usual, name):
                for each in value if isinstance(value, tuple) else (value,):
                    words += typed_words(f"{section}{name}", each)
    return shlex.join(["whichloop", "compare", *words, "-s", "cassette_mode=replay-or-record"])


def run(experiment: Experiment, progress: Progress) -> str:
    """Run the missing trials; return the reason for an early stop, or an empty text.

    Raises KeyboardInterrupt, which leaves a run that can be resumed: after the first Ctrl-C once the trials under way have ended,
    after another at once. Raises CutShort if the disk is full or a design has ended this process's event loop.
    """
    folder, interruption = Path.cwd(), Interruption()
    experiment = replace(experiment, folder=experiment.folder.resolve())  # a design may go elsewhere
    try:
        with told_of_exit(), interruption.listening():
            stopped = asyncio.run(_run(experiment, progress, interruption))
            if not stopped:
                _note_broken_laws(experiment)
    except (SystemExit, asyncio.CancelledError, RuntimeError) as error:  # from a task or a callback; in a trial it is a crash of it
        if isinstance(error, asyncio.CancelledError) and interruption.is_ending:
            raise KeyboardInterrupt from None
        if isinstance(error, RuntimeError) and "Event loop stopped" not in str(error):
            raise
        how = f"{type(error).__name__} {error}".rstrip()
        reason = f"code of a loop or a tool ended the run ({how}); --workers N keeps such code in processes of its own"
        raise CutShort(f"{experiment.folder}: {reason}; what had finished is kept, and the run can be resumed") from None
    finally:
        os.chdir(folder)  # a design may have changed it
    if interruption.is_ending and stopped:
        raise KeyboardInterrupt
    return stopped


def run_apart(experiment: Experiment, progress: Progress) -> str:
    """Run the missing trials like `run`, code of the user's own in a worker process, and many trials in several.

    Raises also WorkerError.
    """
    config, missing = with_worker_process(experiment.config), len(experiment.missing())
    if workers := workers_for(config, missing) or min(config.workers or 0, max(1, missing)):
        config = config.model_copy(update={"workers": workers})
    return run(replace(experiment, config=config), progress)


MIN_SHARED = 1_500
"""Trials below which one process is as quick: a worker takes a second to start, and replays the plans of its tasks itself."""
MAX_SHARING = 4
"""Most workers: one process hands out the trials and writes what came of them."""
_USUAL = ("engine", "workers", "concurrency", "models", "user", "real_time", "data", "tools", "cassette", "budget")
"""Settings that must be the usual ones."""


def workers_for(config: CompareConfig, trials: int) -> int:
    """Return among how many workers a run shares its trials unasked, one for each processor; 0 where they stay in this process.

    They stay where whatever is not of whichloop runs, or is asked, and where the settings say how many run at once.
    """
    usual = CompareConfig()
    if trials < MIN_SHARED or any(getattr(config, name) != getattr(usual, name) for name in _USUAL):
        return 0
    specs = [spec for text in config.loops for spec in specs_in(parse_spec(text))]
    starts = any(is_foreign(spec.name) for spec in specs)
    is_ours = not own_code(config) and not starts and is_generated(parse_spec(config.suite).name)
    processors = min(MAX_SHARING, len(os.sched_getaffinity(0))) if is_ours and sys.platform == "linux" else 0
    return processors if processors > 1 else 0


async def _run(experiment: Experiment, progress: Progress, interruption: Interruption) -> str:
    stopped, task = INTERRUPTED, asyncio.current_task()
    assert task is not None
    interruption.cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
    config = experiment.config
    cells = ((each.id, repeat) for each in experiment.tasks for repeat in range(config.repeats))
    try:
        with TrialWriter(experiment.folder, TracePolicy.of(config.traces, cells, config.seed)) as journal:
            # Read again under the lock, because another process may have continued this run.
            folder, now = experiment.folder, read_manifest(experiment.folder)
            begun, current = (([arm.arm for arm in m.arms], m.suite, m.settings.repeats) for m in (experiment.manifest, now))
            if begun != current:
                raise RunError(f"{folder}: another process has changed this run meanwhile; type the command again")
            experiment = replace(experiment, manifest=now, past=read_state(folder, experiment.past))
            stopped = await _session(experiment, journal, progress, interruption)
    finally:
        interruption.cancel = None
        experiment.trial_models.close(whole=not stopped)
    return stopped


async def _session(experiment: Experiment, journal: TrialWriter, progress: Progress, interruption: Interruption) -> str:
    """Run the missing trials, unless the run's budget is used up, and record the cost of those cut short."""
    if not experiment.missing():
        return ""
    config, spent, meter = experiment.config, experiment.spent, Meter(budget_of(experiment.config.budget))
    meter.calls, meter.tokens, meter.dollars, meter.earlier_s = spent.calls, spent.tokens, spent.dollars, spent.seconds
    if meter.exhausted:
        return meter.exhausted
    models, lines = experiment.trial_models, experiment.lines
    job = Job(config, experiment.suite, experiment.arms, experiment.manifest, models, meter, lines)
    start, stopped = time.monotonic(), INTERRUPTED
    try:
        async with opened(job, progress) as engine:
            start = time.monotonic()
            experiment = _with_retries_noted(experiment)
            interruption.wind_down = partial(asyncio.get_running_loop().call_soon_threadsafe, engine.wind_down)
            stopped = await engine.run(experiment.missing(), journal)
    finally:
        interruption.wind_down = None
        if stopped:
            _note_cut_short(experiment, meter, time.monotonic() - start)
    return stopped


# --- additions to the manifest ---


def _with_retries_noted(experiment: Experiment) -> Experiment:
    """Record retries in the manifest before they begin, so that results always show them."""
    favoured = experiment.missing().favoured
    if not favoured:
        return experiment
    note = RunNote.now(what=experiment.retry, trials=favoured)
    manifest = experiment.manifest.model_copy(update={"retried": (*experiment.manifest.retried, note)})
    write_manifest(experiment.folder, manifest)
    return replace(experiment, manifest=manifest)


def _note_broken_laws(experiment: Experiment) -> None:
    """Check the cheap laws on the loops of the user's own whose trials all came to an end, and note which are broken."""
    arms = [arm for arm in experiment.arms if not type(arm.loop).__module__.startswith("whichloop.")]
    if not arms:
        return
    summaries = {arm.info.arm: arm.summary for arm in results(experiment.folder).comparison.arms}
    ended = {name for name, summary in summaries.items() if summary.scored and not (summary.crashes or summary.late)}
    loops = {str(arm.spec): arm for arm in arms if arm.name in ended and not isinstance(arm.loop, ForeignLoop)}
    check = import_module("whichloop.checks.loop.check")  # of no use to who compares built-in loops alone
    if experiment.config.is_spread:
        found = check.broken_laws_apart(list(loops))
    else:
        found = {name: check.broken_laws(arm.loop) for name, arm in loops.items()}
    broken = {loops[name].spec.label: laws for name, laws in found.items() if laws}
    if broken:
        manifest = read_manifest(experiment.folder)
        write_manifest(experiment.folder, manifest.model_copy(update={"broken_laws": broken}))


def _note_cut_short(experiment: Experiment, meter: Meter, seconds: float) -> None:
    """Record spending that the records do not show. `seconds`: the duration of this session."""
    spent = Spent(meter.calls, meter.tokens, meter.dollars, experiment.spent.seconds + seconds)
    cut_short = experiment.manifest.cut_short
    lost = spent.beyond(read_state(experiment.folder).spent + cut_short)
    if lost.calls:
        with contextlib.suppress(OSError):  # a full disk has been reported already
            write_manifest(experiment.folder, experiment.manifest.model_copy(update={"cut_short": cut_short + lost}))
