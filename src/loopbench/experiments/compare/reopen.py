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
from loopbench.runs.manifest import ASKED, asked_of, looks_of, manifest_of
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions, allow_words, allowed_config
from loopbench.runs.run_state import Retry, read_state
from loopbench.runs.schedule import Arm
from loopbench.runs.store.files import RunError, read_manifest
from loopbench.runs.store.lock import locked
from loopbench.runs.trial_models import TrialModels, open_models

SESSION_SETTINGS = frozenset({"concurrency", "workers", "engine", "address", "budget", "mlflow"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a run goes on this time. What a trial gives does not depend on it, and none of it is written to the manifest."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CompareConfig` that win over the manifest's: those in `SESSION_SETTINGS`; of `budget` the given limits."""
    retry: Retry | None = None

    def over(self, begun: Mapping[str, Any]) -> dict[str, Any]:
        """What differs from the configuration that a run began with. Raises ValueError for a setting that results depend on."""
        for name in self.settings:
            if name not in SESSION_SETTINGS:
                raise ValueError(f"{name}: it stays as it was when the run began")
        changed = dict(self.settings)
        if "budget" in changed:
            known = begun.get("budget")
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
    manifest: Mapping[str, Any]
    config: CompareConfig
    """With what was typed for this sitting."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    today: Mapping[str, Any]
    """The manifest that a run of this configuration would have if it began now."""

    @property
    def changes(self) -> list[str]:
        """What is another since the run began, in words."""
        return changes(self.manifest, self.today)

    def trial_models(self) -> TrialModels:
        """What answers; real models as they showed themselves when the run began. Raises as `open_models` does."""
        known = self.manifest.get("models")
        return open_models(self.config, self.arms, known if isinstance(known, dict) else {})


def look_again(folder: Path, allowed: Permissions = NO_PERMISSIONS, sitting: SessionSettings = UNCHANGED) -> Reopened:
    """Look up what a run's configuration means today. Raises RunError and ValueError; nothing is written."""
    manifest = read_manifest(folder)
    if "imported" in manifest:
        raise RunError(f"{folder}: imported from another tool's files, so there is nothing to run")
    changed = sitting.over(manifest["config"])
    config = config_from({**manifest["config"], **changed}, f"{folder}/manifest.json", typed=sitting.settings)
    config = allowed_config(folder, config, allowed)
    suite, tasks, arms = resolve(config)
    return Reopened(folder, manifest, config, suite, tasks, arms, manifest_of(config, suite, tasks, arms))


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, sitting: SessionSettings = UNCHANGED) -> Experiment:
    """An interrupted run. Raises RunError where code, suite or profiles have changed since: results are never mixed."""
    begun = look_again(folder, allowed, sitting)
    with locked(folder):
        pass  # a run that another process writes to is refused before anything is shown of it
    if begun.changes:
        raise RunError(changed_message(begun))
    _check_looks(folder, begun.manifest, begun.tasks)
    past = read_state(folder)
    return Experiment(
        folder, begun.config, begun.suite, begun.tasks, begun.arms, begun.manifest, begun.trial_models(), past, sitting.retry
    )


def changed_message(begun: Reopened) -> str:
    """What has changed since a run began, and what can be done about it, in one line."""
    way = _way_on(begun)
    found = summary(begun.changes)
    return f"{begun.folder}: changed since this run began: {found}; results are never mixed, nothing was written; {way}"


def _way_on(begun: Reopened) -> str:
    then, now, name = begun.manifest, begun.today, quoted(begun.folder)
    anew = "start a new run with the same settings"
    same_questions = then.get(ASKED) == asked_of(begun.config, begun.suite, begun.tasks)
    if not suite_changes(then, now) or arms_changed(then, now) or not same_questions:
        return anew
    rescore = " ".join(["loopbench rescore", name, *allow_words(begun.config.model_copy(update={"loops": ()}))])
    if then["suite"].get("digest") != now["suite"]["digest"]:
        return f"the questions are the same, so the answers can be judged again: {rescore}"
    return f"where only scorers changed in it, judge the answers again: {rescore}; else {anew}"


def _check_looks(folder: Path, manifest: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Raises RunError where the plan of looks is not one of these tasks."""
    try:
        looks = looks_of(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder}/manifest.json: looks: {error}") from None
    if looks is not None and set(looks.order) != {task.id for task in tasks}:
        raise RunError(f"{folder}/manifest.json: looks: other tasks than the suite's")
