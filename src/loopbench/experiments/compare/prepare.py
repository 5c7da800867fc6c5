"""From a configuration to a run that is ready to go: everything is looked up, the run directory is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loopbench.checks.suite import quick_problems
from loopbench.datasets.task import Suite, Task
from loopbench.metrics.sequential import Looks
from loopbench.runs.config import CompareConfig
from loopbench.runs.folders import new_folder
from loopbench.runs.lookup import check_plans, resolve
from loopbench.runs.manifest import Manifest, write_manifest
from loopbench.runs.new_manifest import asked_of, manifest_of
from loopbench.runs.run_state import Retry, RunState, Spent
from loopbench.runs.schedule import Arm, PendingTrials, Trial, schedule
from loopbench.runs.trial_models import TrialModels, open_models


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run that is ready to go: everything is looked up, the directory is made."""

    folder: Path
    config: CompareConfig
    """As it is carried out now: a session may have other workers, or another budget, than the manifest says."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    manifest: Manifest
    trial_models: TrialModels = field(default_factory=TrialModels)
    past: RunState = field(default_factory=RunState)
    """The trials of earlier sessions."""
    retry: Retry | None = None
    """What is run again on request."""

    @property
    def trials(self) -> int:
        """Trials in the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    @property
    def spent(self) -> Spent:
        """What earlier sessions spent, as far as it is known."""
        return self.past.spent + self.manifest.cut_short

    def missing(self) -> PendingTrials:
        """Return the trials without a record, and those that are to be tried again."""
        return PendingTrials(self._schedule, self.trials, self.past, self.retry)

    def _schedule(self) -> Iterator[Trial]:
        repeats, seed, looks = self.config.repeats, self.config.seed, self.manifest.looks
        if looks is None:
            yield from schedule(self.arms, self.tasks, repeats, seed)
            return
        tasks = {task.id: task for task in self.tasks}
        for look in range(1, looks.count + 1):
            yield from schedule(self.arms, [tasks[task] for task in looks.stage(look)], repeats, seed)


def prepare(config: CompareConfig, folder: Path | None = None) -> Experiment:
    """Look everything up and make the run directory, `folder` or a new one.

    Raises ValueError for bad input; then nothing was made.
    """
    suite, tasks, arms = resolve(config)
    check_plans(config, suite, tasks)
    models = open_models(config, arms)
    parts = {
        "asked": asked_of(config, suite, tasks),
        "models": models.as_manifest(),
        "suite_problems": quick_problems(suite, tasks),
    }
    if config.looks is not None:
        parts["looks"] = Looks.planned([task.id for task in tasks], config.looks, config.seed)
    manifest = manifest_of(config, suite, tasks, arms).model_copy(update=parts)
    folder = new_folder(config.runs, suite.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest)
    return Experiment(folder, config, suite, tasks, arms, manifest, models)
