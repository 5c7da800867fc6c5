"""A fitted profile held against its run: the run's loops go through the same tasks again under the profile.

The differences are paired by task. All of them, of every loop and measure, are one family (see `metrics.families`), so that a
profile that reproduces its run is called off no more often than alpha.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from whichloop.datasets.task import Task
from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.paired import SCORES, PairedFlip, judge_family
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, Interval
from whichloop.metrics.summary import task_values
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.protocol.values import one_line
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import ArmEntry, Manifest, read_manifest
from whichloop.runs.permissions import allowed_code, own_code
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import each_record

from .fit import FittedProfile, to_toml

MEASURES: Mapping[str, Callable[[Record], float]] = {
    "calls": lambda record: record.lm_calls,
    "accuracy": lambda record: record.accuracy,
    "errors": lambda record: sum(record.errors.values()),
}
"""What a trial is compared in: calls of the model, the primary score, and errors of any kind."""


@dataclass(frozen=True)
class MeasureGap:
    """How far one measure of one loop is off under the fitted profile."""

    loop: str
    measure: str
    run: float
    """Mean over the tasks of both."""
    profile: float
    """The same under the profile."""
    difference: Interval
    """Run minus profile, at the level that the family leaves it: it holds 0 unless the measure is off."""
    off: bool

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"difference": self.difference.as_dict()}


def compare_records(
    names: Mapping[str, str],
    before: Sequence[Record],
    again: Sequence[Record],
    alpha: float = ALPHA,
    measures: Mapping[str, Callable[[Record], float]] = MEASURES,
) -> tuple[MeasureGap, ...]:
    """Compare arms over the tasks scored in both runs; `names`: an arm of the run → that under the profile.

    Raises ValueError if no task was scored in both.
    """
    flips, found = list[tuple[PairedFlip, float]](), list[tuple[str, str, float, float]]()
    for arm, name in names.items():
        for measure, value in measures.items():
            first = task_values([record for record in before if record.arm == arm], value).means
            second = task_values([record for record in again if record.arm == name], value)
            tasks = sorted(first.keys() & second.means.keys())  # trials end in any order, and sums of floats follow it
            if tasks:
                sides = [first[task] for task in tasks], [second.means[task] for task in tasks]
                gaps = [a - b for a, b in zip(*sides, strict=True)]
                reach = SCORES if measure == "accuracy" else None
                flips.append((PairedFlip(gaps, [second.clusters[task] for task in tasks], reach=reach), 0.0))
                found.append((name.rpartition("/")[0], measure, fmean(sides[0]), fmean(sides[1])))
    if not found:
        raise ValueError("no task was scored in both; the scripted model needs plans for them")
    decided = zip(found, judge_family(flips, alpha), strict=True)
    return tuple(MeasureGap(*gap, decision.difference, decision.p_holm < alpha) for gap, decision in decided)


MAX_TRIALS = 400
"""Trials of each loop that are run again; of a larger run the first tasks."""
_ANEW: Mapping[str, Any] = {
    "models": [SCRIPTED], "base_url": None, "provider": {}, "cassette": None, "cassette_mode": None, "skip_unplanned": True,
    "user": None,
    "engine": "local", "address": None, "workers": None, "concurrency": None, "traces": "none", "real_time": False,
    "budget": {}, "trial_budget": {}, "price": None, "mlflow": False, "tracking_uri": None,
}  # fmt: skip
"""Settings of the run that concern its model, its machine or its cost, and not what its loops did."""


@dataclass(frozen=True)
class FitCheck:
    """What became of the check of a fitted profile."""

    gaps: tuple[MeasureGap, ...] = ()
    tasks: int = 0
    repeats: int = 0
    problem: str = ""
    """Why the profile could not be checked; empty if it was."""

    @property
    def off(self) -> tuple[MeasureGap, ...]:
        """Differences beyond their intervals."""
        return tuple(gap for gap in self.gaps if gap.off)

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"gaps": [gap.as_dict() for gap in self.gaps], "off": bool(self.off)}


def check_fit(folder: Path, fitted: FittedProfile, allow: Collection[str] = ()) -> FitCheck:
    """Run the loops that a profile was fitted to again under it, and compare calls, accuracy and errors with the run's.

    `allow`: the user's own code that may be imported. What stands in the way is told in the result.
    """
    try:
        with tempfile.TemporaryDirectory() as scratch:
            arms, again, repeats = run_again(folder, to_toml(fitted), fitted.arms, allow, Path(scratch))
            before = [record for record in each_record(folder) if record.arm in fitted.arms]
            gaps = compare_records(arms, before, again)
    except (ValueError, OSError) as error:
        return FitCheck(problem=one_line(str(error)))
    shared = {record.task for record in again if record.status == "scored"}
    return FitCheck(gaps, len(shared), repeats)


_REMEDY = "run whichloop compare again, or use the version of the code that made it"


def run_again(
    folder: Path,
    profile: str,
    of_arms: Sequence[str],
    allow: Collection[str],
    scratch: Path,
    chosen: Callable[[Sequence[Task]], Sequence[Task]] | None = None,
    repeats: int = 1,
) -> tuple[dict[str, str], tuple[Record, ...], int]:
    """Run the loops of a run's arms again under a profile, on as many tasks as `MAX_TRIALS` leaves.

    Returns arm of the run → arm under the profile, the records, and how often each task ran.
    `profile`: TOML. `of_arms`: of one model. `chosen`: picks the tasks of all those of the suite and split; None: the run's first
    ones. `repeats`: of each chosen task, or as many as the run had; more make the means steadier. `scratch`: an empty folder.
    Raises RunError, ValueError and OSError.
    """
    manifest = read_manifest(folder)
    loops = _loops(folder, manifest, of_arms)
    config = _config(folder, manifest, list(loops), profile, scratch)
    if chosen is not None:
        config = config.model_copy(update={"tasks": None, "repeats": max(config.repeats, repeats)})
    allowed_code(folder, own_code(config), allow)
    experiment = prepare(config, scratch / "again")
    if chosen is not None:
        experiment = replace(experiment, tasks=chosen(experiment.tasks)[: max(1, MAX_TRIALS // config.repeats)])
    arms = dict(zip([arm.name for arm in experiment.arms], loops.values(), strict=True))
    if manifest.suite.digest != experiment.manifest.suite.digest:
        raise RunError(f"{folder}: the suite has changed since the run; {_REMEDY}")
    for arm in experiment.manifest.arms:
        was = arms[arm.arm]
        if (was.code, was.configuration, was.program) != (arm.code, arm.configuration, arm.program):
            raise RunError(f"{folder}: loop {arm.loop} has changed since the run; {_REMEDY}")
    if stopped := run(experiment, Unwatched()):
        raise RunError(f"{folder}: the loops could not be run again: {stopped}")
    names = {arm.arm: name for name, arm in arms.items()}
    return names, tuple(each_record(experiment.folder)), config.repeats


def _loops(folder: Path, manifest: Manifest, arms: Sequence[str]) -> dict[str, ArmEntry]:
    """Return the loops of the arms, as they were typed. Raises RunError for an arm of no loop."""
    entries = {arm.arm: arm for arm in manifest.arms if arm.arm in arms}
    by_loop: dict[str, ArmEntry] = {}
    for text in manifest.settings.loops:
        label = parse_spec(text).label
        for name, arm in entries.items():
            if name in (f"{label}/{arm.profile}", f"{label}/{arm.model}", f"{label}/{arm.model}/{arm.profile}"):
                by_loop[text] = arm
    if lost := entries.keys() - {arm.arm for arm in by_loop.values()}:
        raise RunError(f"{folder}: the manifest does not name the loop of {min(lost)}")
    return by_loop


def _config(folder: Path, manifest: Manifest, loops: list[str], profile: str, scratch: Path) -> CompareConfig:
    """Return the run's configuration with the profile in the place of its model, and with draws of its own."""
    file = scratch / "fitted.toml"
    file.write_text(profile, encoding="utf-8")
    settings = manifest.settings
    repeats = min(settings.repeats, MAX_TRIALS)
    changes = {
        **_ANEW,
        "loops": loops,
        "profiles": [str(file)],
        "seed": manifest.seed + 1,
        "repeats": repeats,
        "tasks": max(1, min(settings.tasks or manifest.suite.tasks, MAX_TRIALS // repeats)),
        "runs": str(scratch),
    }
    return config_from({**manifest.config, **changes}, f"{folder}/manifest.json")
