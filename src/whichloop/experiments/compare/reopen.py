"""Going on with a run: its configuration as it means today, the settings of the new session, and arms, tasks or repeats to add."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whichloop.checks import suite as checks
from whichloop.experiments.compare.run import Experiment
from whichloop.protocol.values import counted
from whichloop.runs.config import CompareConfig, SettingError, config_from, typed_limits
from whichloop.runs.folders import refuse_optimization
from whichloop.runs.lookup import check_plans, resolve, tasks_of_split
from whichloop.runs.manifest import Manifest, RunNote, manifest_changes, read_manifest, suite_changes, summary, write_manifest
from whichloop.runs.new_manifest import asked_digests, manifest_of, question_digests
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allow_words, allowed_config
from whichloop.runs.schedule import Retry, make_arms, read_state
from whichloop.runs.store.files import RunError, locked
from whichloop.runs.trial_models import open_models

Settings = Mapping[str, Any]
"""Fields of `CompareConfig` → values."""
SESSION_SETTINGS = frozenset({"concurrency", "workers", "engine", "address", "budget", "mlflow", "otlp"})
"""Settings of one session, on which no result depends; the manifest does not store them."""
UNCHANGED: Settings = MappingProxyType({})


def look_again(folder: Path, allowed: Permissions = NO_PERMISSIONS, settings: Settings = UNCHANGED) -> tuple[Experiment, Manifest]:
    """Look up a run's configuration again without writing anything, and return the run, whose models are not open yet, and the
    manifest that a new run of this configuration would have now.

    `settings`: those of this session, which override the manifest's; of `budget` only the given limits. Raises RunError, and
    ValueError for a setting that results depend on.
    """
    manifest = read_manifest(folder)
    if manifest.imported is not None:
        raise RunError(f"{folder}: imported from another tool's files, so there is nothing to run")
    for name in settings:
        if name not in SESSION_SETTINGS:
            raise SettingError(name, "it stays as it was when the run began")
    changed = dict(settings)
    if "budget" in changed:
        typed = changed["budget"] if isinstance(changed["budget"], Mapping) else typed_limits(changed["budget"])
        changed["budget"] = {**manifest.settings.budget.model_dump(exclude_none=True), **typed}
    # Ray imports from the folder that it is started in: a run that comes from anywhere does not choose it.
    changed.setdefault("engine", "local" if changed.get("address") is None else "ray")
    if changed["engine"] == "local":
        changed.setdefault("address", None)
    config = config_from({**manifest.config, **changed}, f"{folder}/manifest.json", typed=settings)
    config = allowed_config(folder, config, allowed)
    suite, tasks, arms = resolve(config)
    return Experiment(folder, config, suite, tasks, arms, manifest), manifest_of(config, suite, tasks, arms)


def reopen(
    folder: Path, allowed: Permissions = NO_PERMISSIONS, settings: Settings = UNCHANGED, retry: Retry | None = None
) -> Experiment:
    """Reopen an interrupted run. Raises RunError if code, suite or profiles have changed, because results are never mixed."""
    run, today = look_again(folder, allowed, settings)
    with locked(folder):
        pass  # refuses a run that another process writes to before showing anything
    _check_unchanged(run, today)
    models = open_models(run.config, run.arms, run.manifest.models)  # real ones have the abilities of the run's start
    return replace(run, trial_models=models, past=read_state(folder), retry=retry)


def _check_unchanged(run: Experiment, today: Manifest) -> None:
    """Raise RunError that names the changes since a run began, and the remedies."""
    then, name = run.manifest, shlex.quote(str(run.folder))
    changes = manifest_changes(then, today)
    if not changes:
        return
    way_on = anew = "start a new run with the same settings"
    asks_the_same = then.asked == asked_digests(run.config, run.suite, run.tasks)
    arms_as_then = (then.arms, then.versions, then.profiles) == (today.arms, today.versions, today.profiles)
    if suite_changes(then, today) and arms_as_then and asks_the_same:
        words = allow_words(run.config.model_copy(update={"loops": ()}))
        rescore = " ".join(["whichloop resume", name, "--rescore", *words])
        way_on = f"where only scorers changed in it, judge the answers again: {rescore}; else {anew}"
        if then.suite.digest != today.suite.digest:
            way_on = f"the questions are the same, so the answers can be judged again: {rescore}"
    told = f"changed since this run began: {summary(changes)}; results are never mixed, nothing was written; {way_on}"
    raise RunError(f"{run.folder}: {told}")


def extend(
    folder: Path,
    added: Settings,
    allowed: Permissions = NO_PERMISSIONS,
    settings: Settings = UNCHANGED,
    retry: Retry | None = None,
) -> Experiment:
    """Extend a run in place: existing trials stay, missing ones run as after an interruption.

    `added`: more `loops`, `profiles` and `models`, and the new totals of `repeats` and `tasks`. Arms are a full product: a new loop
    gets every profile and model, and so on. Raises RunError if its existing parts have changed, and ValueError for what adds
    nothing, without writing anything.
    """
    refuse_optimization(folder, "extended")
    with locked(folder):
        run, old = look_again(folder, allowed, settings)
        if run.manifest.is_ablation:
            raise RunError(f"{folder}: an ablation, whose arms are a design of their own: nothing can be added; start a new run")
        _check_unchanged(run, old)
        config, suite = _with_more(run, added), run.suite
        arms = make_arms(config, suite)
        tasks = tasks_of_split(suite, config.split)[: config.tasks]
        trials = len(arms) * len(tasks) * config.repeats
        if trials <= run.trials:
            if added.get("tasks", 0) > len(tasks):
                raise SettingError("tasks", f"the run has all {counted(len(tasks), 'task')} of suite {suite.name} already")
            raise ValueError("nothing is added: name a loop, a profile, a model, or more repeats or tasks than the run has")
        check_plans(config, suite, tasks)
        today = manifest_of(config, suite, tasks, arms)
        parts = {
            "suite": today.suite.model_copy(update={"tasks": old.suite.tasks}),
            "profiles": {name: digest for name, digest in today.profiles.items() if name in old.profiles},
            "arms": tuple(arm for arm in today.arms if old.arm(arm.arm) is not None),
        }
        if differing := manifest_changes(old, today.model_copy(update=parts)):
            raise RunError(f"{folder}: with this the run would no longer be the same: {summary(differing)}; nothing was written")
        abilities = run.manifest.models
        if new := tuple(name for name in config.real_models if name not in abilities):
            asked = config.model_copy(update={"models": new, "user": None, "cassette": None, "cassette_mode": None})
            abilities = abilities | open_models(asked, [arm for arm in arms if arm.model in new]).as_manifest()
        models = open_models(config, arms, abilities)
        manifest = run.manifest.model_copy(
            update={
                "config": run.manifest.config | {name: config.public()[name] for name in added},
                "suite": today.suite,
                "profiles": today.profiles,
                **({"own_profiles": today.own_profiles} if today.own_profiles else {}),
                "arms": today.arms,
                **question_digests(config, suite, tasks),
                "models": abilities | models.as_manifest(),
                "suite_problems": checks.quick_problems(suite, tasks),
                "extended": (*run.manifest.extended, RunNote.now(trials=run.trials, to=trials)),
            }
        )
        write_manifest(folder, manifest)
        extended = replace(run, config=config, tasks=tasks, arms=arms, manifest=manifest)
        return replace(extended, trial_models=models, past=read_state(folder), retry=retry)


def _with_more(run: Experiment, added: Settings) -> CompareConfig:
    """Return a run's configuration with what is added. Raises SettingError for a total below the present one."""
    changed: dict[str, Any] = {
        name: (*getattr(run.config, name), *new) if isinstance(new, tuple) else new for name, new in added.items()
    }
    for name, present in (("repeats", run.config.repeats), ("tasks", len(run.tasks))):
        if changed.get(name, present) < present:
            raise SettingError(name, f"the new total, {changed[name]}, is less than the {present} that the run has")
    return config_from(run.config.model_dump(mode="json") | changed)
