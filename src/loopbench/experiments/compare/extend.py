"""Arms, tasks or repeats added to a run: what is there stays and counts, what is missing then is run as after an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopbench.checks.suite import quick_problems
from loopbench.runs.changes import arms_of, changes, summary
from loopbench.runs.config import COMMAND_LINE, CompareConfig, config_from
from loopbench.runs.folders import refuse_optimization
from loopbench.runs.lookup import check_plans, tasks_of_split
from loopbench.runs.manifest import ABLATION, ASKED, EXTENDED, asked_of, manifest_of, noted
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions
from loopbench.runs.run_state import read_state
from loopbench.runs.schedule import Arm, make_arms
from loopbench.runs.store.files import RunError, write_manifest
from loopbench.runs.store.lock import locked
from loopbench.runs.trial_models import open_models

from .prepare import Experiment
from .reopen import UNCHANGED, Reopened, SessionSettings, changed_message, look_again


@dataclass(frozen=True, slots=True)
class Additions:
    """What a run gets in addition. Arms are a full product: a loop is added under every profile and model, and so on."""

    loops: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    repeats: int | None = None
    """The new total."""
    tasks: int | None = None
    """The new total."""


def extend(
    folder: Path, additions: Additions, allowed: Permissions = NO_PERMISSIONS, sitting: SessionSettings = UNCHANGED
) -> Experiment:
    """Add to a run, in place. Raises RunError where what is there is not what it was, and ValueError; then nothing was written."""
    refuse_optimization(folder, "extended")
    with locked(folder):
        begun = look_again(folder, allowed, sitting)
        _refuse(begun)
        config = _config(begun, additions)
        arms = make_arms(config, begun.suite)
        tasks = tasks_of_split(begun.suite, config.split)[: config.tasks]
        _check_more(begun, additions, len(arms) * len(tasks) * config.repeats, len(tasks))
        check_plans(config, begun.suite, tasks)
        today = manifest_of(config, begun.suite, tasks, arms)
        _check_kept(begun, today)
        models = _models(begun, config, arms)
        answers = open_models(config, arms, models)
        manifest = {
            **begun.manifest,
            **{name: today[name] for name in ("suite", "profiles", "arms")},
            **({ASKED: asked_of(config, begun.suite, tasks)} if ASKED in begun.manifest else {}),  # an earlier version's has none
            "config": begun.manifest["config"] | {name: config.public()[name] for name in _added_to(begun.config, additions)},
            "models": models | answers.as_manifest(),
            "suite_problems": list(quick_problems(begun.suite, tasks)),
            EXTENDED: noted(begun.manifest, EXTENDED, trials=_trials(begun), to=len(arms) * len(tasks) * config.repeats),
        }
        write_manifest(folder, manifest)
        return Experiment(folder, config, begun.suite, tasks, arms, manifest, answers, read_state(folder), sitting.retry)


def _refuse(begun: Reopened) -> None:
    """Raises RunError for a run that cannot be added to."""
    for name, why in (
        ("looks", "it is looked at on its way, at a plan of its tasks that more of them would break"),
        (ABLATION, "it is an ablation, whose arms are a design of their own"),
    ):
        if begun.manifest.get(name) is not None:
            raise RunError(f"{begun.folder}: nothing can be added to this run: {why}; start a new run")
    if begun.changes:
        raise RunError(changed_message(begun))


def _config(begun: Reopened, additions: Additions) -> CompareConfig:
    """With the additions. Raises ValueError for what stands in the run already, and for a total that is less than there is."""
    now = begun.config
    for name, total, there in (("repeats", additions.repeats, now.repeats), ("tasks", additions.tasks, len(begun.tasks))):
        if total is not None and total < there:
            raise ValueError(f"--{name} {total}: the run has {there} already, and N is the new total; nothing is taken away")
    added = _added_to(now, additions)
    return config_from(now.model_dump(mode="json") | added, COMMAND_LINE, typed=added)


def _added_to(now: CompareConfig, additions: Additions) -> dict[str, Any]:
    """The fields that the additions change."""
    changed: dict[str, Any] = {}
    for name in ("loops", "profiles", "models"):
        if more := getattr(additions, name):
            changed[name] = [*getattr(now, name), *more]
    if additions.repeats is not None:
        changed["repeats"] = additions.repeats
    if additions.tasks is not None:
        changed["tasks"] = additions.tasks
    return changed


def _check_more(begun: Reopened, additions: Additions, trials: int, tasks: int) -> None:
    """Raises ValueError where nothing is added."""
    if trials > _trials(begun):
        return
    if additions.tasks is not None and additions.tasks > tasks:
        raise ValueError(f"--tasks {additions.tasks}: the run has all {tasks} tasks of suite {begun.suite.name} already")
    raise ValueError("nothing is added: give --loop, --profile, --model, or a larger --repeats or --tasks than the run has")


def _check_kept(begun: Reopened, today: Mapping[str, Any]) -> None:
    """Raises RunError where what is there would not be what it was."""
    was, now = begun.today, arms_of(today)
    kept = {
        **today,
        "suite": {**today["suite"], "tasks": was["suite"]["tasks"]},
        "profiles": {name: today["profiles"].get(name) for name in was["profiles"]},
        "arms": [now[name] for name in arms_of(was) if name in now],
    }
    if found := changes(was, kept):
        raise RunError(f"{begun.folder}: with this the run would not be what it was: {summary(found)}; nothing was written")


def _models(begun: Reopened, config: CompareConfig, arms: tuple[Arm, ...]) -> dict[str, Any]:
    """What real models can do: those of the run as they showed when it began, new ones as they show now."""
    known = begun.manifest.get("models")
    models: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
    new = tuple(name for name in config.real_models if name not in models)
    if not new:
        return models
    asked = config.model_copy(update={"models": new, "cassette": None, "cassette_mode": None})
    return models | open_models(asked, [arm for arm in arms if arm.model in new]).as_manifest()


def _trials(begun: Reopened) -> int:
    """In the schedule so far."""
    return len(begun.arms) * len(begun.tasks) * begun.config.repeats
