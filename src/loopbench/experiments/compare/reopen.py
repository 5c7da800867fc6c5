"""A run directory opened again: what it was begun with, what has changed since, and how it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopbench.datasets.task import Suite, Task
from loopbench.experiments.compare.prepare import Experiment
from loopbench.runs.changes import arms_changed, changes, quoted, suite_changes, summary
from loopbench.runs.config import CompareConfig, config_from
from loopbench.runs.lookup import resolve
from loopbench.runs.manifest import Manifest, read_manifest
from loopbench.runs.new_manifest import asked_of, manifest_of
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions, allow_words, allowed_config
from loopbench.runs.run_state import Retry, read_state
from loopbench.runs.schedule import Arm
from loopbench.runs.store.files import RunError
from loopbench.runs.store.lock import locked
from loopbench.runs.trial_models import TrialModels, open_models

SESSION_SETTINGS = frozenset({"concurrency", "workers", "engine", "address", "budget", "mlflow"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a run goes on this time. What a trial gives does not depend on it, and none of it is written to the manifest."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CompareConfig` that win over the manifest's: those in `SESSION_SETTINGS`; of `budget` the given limits."""
    retry: Retry | None = None

    def over(self, begun_with: Mapping[str, Any]) -> dict[str, Any]:
        """Return what differs from the configuration of the manifest. Raises ValueError for a setting that results depend on."""
        for name in self.settings:
            if name not in SESSION_SETTINGS:
                raise ValueError(f"{name}: it stays as it was when the run began")
        changed = dict(self.settings)
        if "budget" in changed:
            known = begun_with.get("budget")
            changed["budget"] = {**(known if isinstance(known, dict) else {}), **changed["budget"]}
        if changed.get("engine") == "local":
            changed.setdefault("address", None)
        elif changed.get("address") is not None:
            changed.setdefault("engine", "ray")
        return changed


UNCHANGED = SessionSettings()


@dataclass(frozen=True, slots=True)
class Reopened:
    """A run that was begun, and what its configuration means today."""

    folder: Path
    manifest: Manifest
    config: CompareConfig
    """With what was typed for this session."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    today: Manifest
    """The manifest that a run of this configuration would have if it began now."""

    @property
    def changes(self) -> list[str]:
        """What has changed since the run began, in words."""
        return changes(self.manifest, self.today)

    @property
    def trials(self) -> int:
        """Trials in the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    def trial_models(self) -> TrialModels:
        """Return what answers; real models as they showed themselves when the run began. Raises as `open_models` does."""
        return open_models(self.config, self.arms, self.manifest.models)


def look_again(folder: Path, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED) -> Reopened:
    """Look up what a run's configuration means today. Raises RunError and ValueError; nothing is written."""
    manifest = read_manifest(folder)
    if manifest.imported is not None:
        raise RunError(f"{folder}: imported from another tool's files, so there is nothing to run")
    changed = session.over(manifest.config)
    config = config_from({**manifest.config, **changed}, f"{folder}/manifest.json", typed=session.settings)
    config = allowed_config(folder, config, allowed)
    suite, tasks, arms = resolve(config)
    return Reopened(folder, manifest, config, suite, tasks, arms, manifest_of(config, suite, tasks, arms))


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED) -> Experiment:
    """Open an interrupted run. Raises RunError where code, suite or profiles have changed since: results are never mixed."""
    run = look_again(folder, allowed, session)
    with locked(folder):
        pass  # a run that another process writes to is refused before anything is shown of it
    if run.changes:
        raise RunError(changed_message(run))
    looks = run.manifest.looks
    if looks is not None and set(looks.order) != {task.id for task in run.tasks}:
        raise RunError(f"{folder}/manifest.json: looks: other tasks than the suite's")
    models, past = run.trial_models(), read_state(folder)
    return Experiment(folder, run.config, run.suite, run.tasks, run.arms, run.manifest, models, past, session.retry)


def changed_message(run: Reopened) -> str:
    """Return what has changed since a run began, and what can be done about it, in one line."""
    found = summary(run.changes)
    return f"{run.folder}: changed since this run began: {found}; results are never mixed, nothing was written; {_way_on(run)}"


def _way_on(run: Reopened) -> str:
    then, now, name = run.manifest, run.today, quoted(run.folder)
    anew = "start a new run with the same settings"
    asks_the_same = then.asked == asked_of(run.config, run.suite, run.tasks)
    if not suite_changes(then, now) or arms_changed(then, now) or not asks_the_same:
        return anew
    rescore = " ".join(["loopbench rescore", name, *allow_words(run.config.model_copy(update={"loops": ()}))])
    if then.suite.digest != now.suite.digest:
        return f"the questions are the same, so the answers can be judged again: {rescore}"
    return f"where only scorers changed in it, judge the answers again: {rescore}; else {anew}"
