"""Reopening a run directory: its original configuration, the changes since, and the settings of the new session."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.experiments.compare.run import Experiment
from whichloop.runs.config import CompareConfig, SettingError, config_from, typed_limits
from whichloop.runs.lookup import resolve
from whichloop.runs.manifest import Manifest, manifest_changes, read_manifest, suite_changes, summary
from whichloop.runs.new_manifest import asked_digests, manifest_of
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allow_words, allowed_config
from whichloop.runs.schedule import Arm, Retry, read_state
from whichloop.runs.store.files import RunError, locked
from whichloop.runs.trial_models import TrialModels, open_models

SESSION_SETTINGS = frozenset({"concurrency", "workers", "engine", "address", "budget", "mlflow", "otlp"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of one session. Results of trials do not depend on them, and the manifest does not store them."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CompareConfig` from `SESSION_SETTINGS` that override the manifest's; for `budget`, only the given limits."""
    retry: Retry | None = None

    def changes_to(self, begun_with: Mapping[str, Any]) -> dict[str, Any]:
        """Return the differences from the manifest's configuration. Raises ValueError for a setting that results depend on."""
        for name in self.settings:
            if name not in SESSION_SETTINGS:
                raise SettingError(name, "it stays as it was when the run began")
        changed = dict(self.settings)
        if "budget" in changed:
            limits = begun_with.get("budget")
            typed = changed["budget"] if isinstance(changed["budget"], Mapping) else typed_limits(changed["budget"])
            changed["budget"] = {**(limits if isinstance(limits, dict) else {}), **typed}
        # Ray imports from the folder that it is started in: a run that comes from anywhere does not choose it.
        changed.setdefault("engine", "local" if changed.get("address") is None else "ray")
        if changed["engine"] == "local":
            changed.setdefault("address", None)
        return changed


UNCHANGED = SessionSettings()


@dataclass(frozen=True, slots=True)
class Reopened:
    """A reopened run, with the present meaning of its configuration."""

    folder: Path
    manifest: Manifest
    config: CompareConfig
    """The configuration, including the settings of this session."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    today: Manifest
    """The manifest that a new run of this configuration would have now."""

    @property
    def changes(self) -> list[str]:
        """The changes since the run began, in words."""
        return manifest_changes(self.manifest, self.today)

    @property
    def trials(self) -> int:
        """Number of trials in the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    def trial_models(self) -> TrialModels:
        """Return the models; real ones have the abilities recorded at the run's start. Raises like `open_models`."""
        return open_models(self.config, self.arms, self.manifest.models)


def look_again(folder: Path, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED) -> Reopened:
    """Look up a run's configuration again without writing anything. Raises RunError and ValueError."""
    manifest = read_manifest(folder)
    if manifest.imported is not None:
        raise RunError(f"{folder}: imported from another tool's files, so there is nothing to run")
    changed = session.changes_to(manifest.config)
    config = config_from({**manifest.config, **changed}, f"{folder}/manifest.json", typed=session.settings)
    config = allowed_config(folder, config, allowed)
    suite, tasks, arms = resolve(config)
    return Reopened(folder, manifest, config, suite, tasks, arms, manifest_of(config, suite, tasks, arms))


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED) -> Experiment:
    """Reopen an interrupted run. Raises RunError if code, suite or profiles have changed, because results are never mixed."""
    run = look_again(folder, allowed, session)
    with locked(folder):
        pass  # refuses a run that another process writes to before showing anything
    if run.changes:
        raise RunError(changed_message(run))
    models, state = run.trial_models(), read_state(folder)
    return Experiment(
        folder=folder,
        config=run.config,
        suite=run.suite,
        tasks=run.tasks,
        arms=run.arms,
        manifest=run.manifest,
        trial_models=models,
        past=state,
        retry=session.retry,
    )


def changed_message(run: Reopened) -> str:
    """Return the changes since a run began and the remedies, in one line."""
    changed = summary(run.changes)
    return f"{run.folder}: changed since this run began: {changed}; results are never mixed, nothing was written; {_way_on(run)}"


def _way_on(run: Reopened) -> str:
    then, now, name = run.manifest, run.today, shlex.quote(str(run.folder))
    anew = "start a new run with the same settings"
    asks_the_same = then.asked == asked_digests(run.config, run.suite, run.tasks)
    is_of_suite = (then.arms, then.versions, then.profiles) == (now.arms, now.versions, now.profiles)
    if not suite_changes(then, now) or not is_of_suite or not asks_the_same:
        return anew
    rescore = " ".join(["whichloop resume", name, "--rescore", *allow_words(run.config.model_copy(update={"loops": ()}))])
    if then.suite.digest != now.suite.digest:
        return f"the questions are the same, so the answers can be judged again: {rescore}"
    return f"where only scorers changed in it, judge the answers again: {rescore}; else {anew}"
