"""Adding arms, tasks or repeats to a run: existing trials stay, missing ones run as after an interruption."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.checks import suite as checks
from whichloop.experiments.compare.run import Experiment
from whichloop.protocol.values import counted
from whichloop.runs.config import CompareConfig, SettingError, config_from
from whichloop.runs.folders import refuse_optimization
from whichloop.runs.lookup import check_plans, tasks_of_split
from whichloop.runs.manifest import RunNote, manifest_changes, summary, write_manifest
from whichloop.runs.new_manifest import manifest_of, question_digests
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions
from whichloop.runs.schedule import Arm, make_arms, read_state
from whichloop.runs.store.files import RunError, locked
from whichloop.runs.trial_models import open_models

from .reopen import UNCHANGED, Reopened, SessionSettings, changed_message, look_again


@dataclass(frozen=True, slots=True)
class Additions:
    """Additions to a run. Arms are a full product: a new loop gets every profile and model, and so on."""

    loops: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    repeats: int | None = None
    """The new total number."""
    tasks: int | None = None
    """The new total number."""


def extend(
    folder: Path, additions: Additions, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED
) -> Experiment:
    """Extend a run in place. Raises RunError if its existing parts have changed, and ValueError, without writing anything."""
    refuse_optimization(folder, "extended")
    with locked(folder):
        run = look_again(folder, allowed, session)
        _refuse(run)
        config, suite = _config(run, additions), run.suite
        arms = make_arms(config, suite)
        tasks = tasks_of_split(suite, config.split)[: config.tasks]
        trials = len(arms) * len(tasks) * config.repeats
        _check_more(run, additions, trials, len(tasks))
        check_plans(config, suite, tasks)
        today = manifest_of(config, suite, tasks, arms)
        old = run.today
        parts = {
            "suite": today.suite.model_copy(update={"tasks": old.suite.tasks}),
            "profiles": {name: digest for name, digest in today.profiles.items() if name in old.profiles},
            "arms": tuple(arm for arm in today.arms if old.arm(arm.arm) is not None),
        }
        if changed := manifest_changes(old, today.model_copy(update=parts)):
            raise RunError(f"{run.folder}: with this the run would no longer be the same: {summary(changed)}; nothing was written")
        abilities = _models(run, config, arms)
        models = open_models(config, arms, abilities)
        manifest = run.manifest.model_copy(
            update={
                "config": run.manifest.config | {name: config.public()[name] for name in _added_to(run.config, additions)},
                "suite": today.suite,
                "profiles": today.profiles,
                "arms": today.arms,
                **question_digests(config, suite, tasks),
                "models": abilities | models.as_manifest(),
                "suite_problems": checks.quick_problems(suite, tasks),
                "extended": (*run.manifest.extended, RunNote.now(trials=run.trials, to=trials)),
            }
        )
        write_manifest(folder, manifest)
        return Experiment(
            folder=folder,
            config=config,
            suite=suite,
            tasks=tasks,
            arms=arms,
            manifest=manifest,
            trial_models=models,
            past=read_state(folder),
            retry=session.retry,
        )


def _refuse(run: Reopened) -> None:
    """Raise RunError for a run that cannot be extended."""
    if run.manifest.is_ablation:
        reason = "it is an ablation, whose arms are a design of their own"
        raise RunError(f"{run.folder}: nothing can be added to this run: {reason}; start a new run")
    if run.changes:
        raise RunError(changed_message(run))


def _config(run: Reopened, additions: Additions) -> CompareConfig:
    """Return the configuration with the additions.

    Raises ValueError for additions that the run already has, and for a total below the present one.
    """
    now = run.config
    for name, total, present in (("repeats", additions.repeats, now.repeats), ("tasks", additions.tasks, len(run.tasks))):
        if total is not None and total < present:
            raise SettingError(name, f"the new total, {total}, is less than the {present} that the run has")
    added = _added_to(now, additions)
    return config_from(now.model_dump(mode="json") | added)


def _added_to(now: CompareConfig, additions: Additions) -> dict[str, Any]:
    """Return the fields that the additions change."""
    changed: dict[str, Any] = {}
    for name in ("loops", "profiles", "models"):
        if added := getattr(additions, name):
            changed[name] = [*getattr(now, name), *added]
    if additions.repeats is not None:
        changed["repeats"] = additions.repeats
    if additions.tasks is not None:
        changed["tasks"] = additions.tasks
    return changed


def _check_more(run: Reopened, additions: Additions, trials: int, tasks: int) -> None:
    """Raise ValueError if nothing is added."""
    if trials > run.trials:
        return
    if additions.tasks is not None and additions.tasks > tasks:
        raise SettingError("tasks", f"the run has all {counted(tasks, 'task')} of suite {run.suite.name} already")
    raise ValueError("nothing is added: name a loop, a profile, a model, or more repeats or tasks than the run has")


def _models(run: Reopened, config: CompareConfig, arms: tuple[Arm, ...]) -> dict[str, Any]:
    """Return the abilities of real models: those of the run as recorded at its start, new ones as probed now."""
    models = run.manifest.models
    new = tuple(name for name in config.real_models if name not in models)
    if not new:
        return models
    new_config = config.model_copy(update={"models": new, "user": None, "cassette": None, "cassette_mode": None})
    return models | open_models(new_config, [arm for arm in arms if arm.model in new]).as_manifest()
