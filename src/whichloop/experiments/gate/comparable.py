"""Whether a run can be compared with a baseline: what changed in the questions, and a refusal that names the first difference."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.trial_limits import trial_limits
from whichloop.metrics.arm_warnings import MAX_ERRORED
from whichloop.metrics.gate import check_level, check_margin
from whichloop.metrics.summary import METRICS, PRIMARY, TaskValues
from whichloop.protocol.cured_error import CuredError
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest
from whichloop.runs.schedule import upgrades
from whichloop.text.numbers import listed_names

from .changes.changed_code import CodeChange, changed_fields, code_change, other_loop_files
from .changes.unseen import is_changed
from .data.baseline import Baseline
from .data.findings import TaskSets
from .data.sides import Sides
from .data.troubles import has_all, short_arm

_HINT = "where that is meant, bless a new run"
COMMON_FLAG = "--common-tasks"
COMMON_ADVICE = f"{COMMON_FLAG}, in Python common_tasks=True, judges by"
_DIGEST_CHARS, _SHORT = 64, 12


class Incomparable(CuredError):
    """A run and a baseline cannot be compared; the text says why."""


class OtherQuestions(Incomparable):
    """The run was asked something else than the baseline, or under other conditions: a new baseline has them, too."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """What a run and a baseline that can be compared have in common, and what changed in the questions."""

    arms: Mapping[str, str]
    """Arm of the baseline → arm of the run."""
    code: CodeChange | None
    """How the code of the suite changed; None if it did not."""
    tasks: TaskSets | None
    """What became of the baseline's tasks; None where one side has no digests of them."""
    common: TaskSets | None
    """The same, where only the tasks are judged that are the same in both; None where all are."""


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions of a run beside those of a baseline; their differences are looked up once."""

    folder: Path
    """What an error names: the run's directory, or the baseline's file."""
    manifest: Manifest
    baseline: Baseline
    code: CodeChange | None
    tasks: TaskSets | None

    @classmethod
    def of(cls, folder: Path, manifest: Manifest, baseline: Baseline) -> _Questions:
        was, now = baseline.task_digests, manifest.task_digests
        tasks = TaskSets.of(was, now.tasks) if was and now else None
        return cls(folder, manifest, baseline, code_change(manifest, baseline), tasks)

    @property
    def are_the_same(self) -> bool:
        """Whether each task that is to run is the one that ran, whatever its place among the others.

        A version that follows from a file of tasks says no more than the tasks do; one that somebody gave the suite counts.
        """
        by_file = all(config.get("data") is not None for config in (self.manifest.config, self.baseline.config))
        same_version = by_file or self.manifest.suite.version == self.baseline.suite.version
        return self.tasks is not None and not any(self.tasks.others) and not self.shares_other and same_version

    @property
    def shares_other(self) -> bool:
        """Whether what all tasks share is another, for sides that both have digests."""
        now = self.manifest.task_digests
        return now is not None and now.shared != self.baseline.shared_digest


def check_request(baseline: Baseline, metrics: Mapping[str, float], alpha: float) -> None:
    """Raise Incomparable for a metric that the baseline lacks, ValueError for a bad margin or level; no run is needed."""
    check_level(alpha)
    for metric, margin in metrics.items():
        check_margin(metric, margin)
        if metric not in baseline.metrics:
            raise Incomparable(f"metric {metric}: not in the baseline, which knows {', '.join(baseline.metrics)}")


def check_accuracy_margin(setting: str, margin: float) -> None:
    """Raise ValueError, which names the setting, for a margin that no loss of accuracy can have."""
    try:
        check_margin(PRIMARY, margin)
    except ValueError:
        raise ValueError(f"{setting}: a margin from 0 to below 1 is needed, such as 0.02 for 2 points, got {margin:g}") from None


def refuse_other(folder: Path, manifest: Manifest, baseline: Baseline, *, common: bool = False) -> Comparable:
    """Raise Incomparable that names the first difference in the questions, or an arm that is missing; no trial has to have run.

    `common`: the suite may have changed, and the tasks that are the same in both are to be judged.
    """
    suite, old = manifest.suite, baseline.suite
    _refuse(folder, [("suite", old.name, suite.name)])
    questions = _Questions.of(folder, manifest, baseline)
    sets = _common_tasks(questions) if common else None
    if sets is None:
        _refuse_other_suite(questions)
        _refuse_other_scheduled(questions)
    _refuse_other_settings(questions)
    arms = _found_arms(folder, manifest, baseline)
    change = questions.code
    if change is not None and change.apart_from_loops:
        raise OtherQuestions(
            f"{questions.folder}: {change.named} changed since the baseline",
            "tools or scorers are made of it, so every task is another, and the loop is not judged",
            *_with_new_code(questions, change),
        )
    return Comparable(arms, questions.code, questions.tasks, sets)


def _refuse_other_settings(questions: _Questions) -> None:
    """Raise OtherQuestions for another step limit, version or fault profile."""
    folder, manifest, baseline = questions.folder, questions.manifest, questions.baseline
    settings: list[tuple[str, Any, Any]] = [
        ("step limit", baseline.suite.max_tool_steps, manifest.suite.max_tool_steps),
        *((f"version of {name}", baseline.versions.get(name), now) for name, now in manifest.versions.items()),
    ]
    prices = _price(baseline.config), _price(manifest.config)
    if all(prices):
        settings.append(("price of the scripted model's tokens", *prices))
    _refuse(folder, [("limit of a trial", _limit(baseline.config, baseline.versions), _limit(manifest.config, manifest.versions))])
    for name, now in manifest.profiles.items():
        if name in baseline.profiles:
            settings.append((f"digest of profile {name}", baseline.profiles[name], now))
            fields = changed_fields(baseline.own_profiles.get(name, {}), manifest.own_profiles.get(name, {}))
            if baseline.profiles[name] != now and fields:
                raise OtherQuestions(f"{folder}: profile {name} is another than in the baseline: {fields}", _HINT)
    _refuse(folder, settings)


def _price(config: Mapping[str, Any]) -> str:
    """Return the price of the scripted model's tokens, whosever it is."""
    return str(config["price"]).rpartition("=")[2] if config.get("price") is not None else ""


def _limit(config: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """Return what each trial may spend, in words. The step limit and the time limit are looked at for themselves."""
    budget = {name: value for name, value in config.items() if name == "trial_budget"}
    return trial_limits(budget, versions).words or "none"


def _with_new_code(questions: _Questions, change: CodeChange) -> tuple[str, ...]:
    """Return how to bless the loop as it was with the changed code of the tasks: by git, where files of the loop changed, too."""
    matched = match_arms(questions.manifest, questions.baseline)
    pairs = [
        (questions.baseline.arms[old], entry) for old, arm in matched.items() if arm and (entry := questions.manifest.arm(arm))
    ]
    if not any(is_changed(was, now) for was, now in pairs):
        return ("bless a run of the loop, which has not changed",)
    loops = sorted({name for was, now in pairs for name in other_loop_files(was, now)} - {*change.files})
    as_it_was = f"bless a run of the loop as it was, with {change.named} as it is now"
    if not loops:
        return (as_it_was,)
    files = shlex.join(loops)
    aside = f"git stash push -- {files} puts the loop's change aside, and git stash pop brings it back after that"
    committed = f"git checkout GOOD -- {files}, of the commit GOOD before it, and then git checkout HEAD -- {files}"
    return (aside, f"of a change that is committed, {committed}", as_it_was)


def _refuse(folder: Path, settings: Iterable[tuple[str, Any, Any]]) -> None:
    """Raise OtherQuestions for the first setting, given with its values in the baseline and in the run, that is another."""
    for setting, then, now in settings:
        if then != now:
            raise OtherQuestions(f"{folder}: another {setting} than in the baseline: {_brief(now)}, not {_brief(then)}", _HINT)


def _brief(value: Any) -> str:
    """Shorten a digest."""
    text = str(value)
    return f"{text[:_SHORT]}…" if len(text) == _DIGEST_CHARS else text


# --- the tasks ---


def _refuse_other_suite(questions: _Questions) -> None:
    """Raise OtherQuestions if the suite has changed; where tasks have digests on both sides, it says which tasks did.

    Another order of the same tasks is no change: what a trial meets follows from its task's id, and trials pair up by it.
    """
    if questions.are_the_same:
        return
    suite, old, sets = questions.manifest.suite, questions.baseline.suite, questions.tasks
    versions = [
        (f"version of suite {old.name}", old.version, suite.version),
        (f"digest of suite {old.name}", old.digest, suite.digest),
    ]
    if sets is None or all(then == now for _, then, now in versions):
        _refuse(questions.folder, versions)
        return
    other_version = f" (version {suite.version}, not {old.version})" if suite.version != old.version else ""
    files = f" ({questions.code.named})" if questions.code is not None and questions.code.files else ""
    shared = f"the tools or the data that all its tasks share{files}" if questions.shares_other else ""
    what = listed_names([part for part in (sets.named(), shared) if part]) or "its version alone, and not the tasks that run"
    cures = [] if shared or not sets.same else [f"{COMMON_ADVICE} the {len(sets.same):,} that are the same in both"]
    if questions.code is not None and files and shared:
        *others, last = _with_new_code(questions, questions.code)
        cures += [*others, f"where that is meant, {last}"]
    else:
        cures.append(_HINT)
    raise OtherQuestions(f"{questions.folder}: suite {old.name} has changed since the baseline{other_version}: {what}", *cures)


def _refuse_other_scheduled(questions: _Questions) -> None:
    """Raise OtherQuestions if the run has other tasks of the suite than the baseline, before they ran, where these have digests."""
    sets = questions.tasks
    for tasks, problem in (
        () if sets is None else ((sets.added, "are not in the baseline"), (sets.removed, "of the baseline are left out"))
    ):
        if tasks:
            mistake = f"{questions.folder}: other tasks: {len(tasks)} {problem}, such as {tasks[0]}"
            raise OtherQuestions(mistake, f"{COMMON_ADVICE} those of both", _HINT)


def _common_tasks(questions: _Questions) -> TaskSets:
    """Return which tasks are the same in both. Raises Incomparable where none is, or nobody knows."""
    sets, folder = questions.tasks, questions.folder
    if sets is None:
        older = "the baseline has" if not questions.baseline.task_digests else f"{folder} has"
        raise Incomparable(f"{COMMON_FLAG}: {older} no digests of its tasks, as an older whichloop made it", "make it anew")
    if questions.shares_other:
        raise Incomparable(
            f"{folder}: {COMMON_FLAG}: the tools or the data that all tasks share have changed, and so all of them did"
        )
    if not sets.same:
        raise Incomparable(f"{folder}: {COMMON_FLAG}: no task is the same as in the baseline: {sets.named()}", _HINT)
    return sets


def refuse_other_tasks(run: Results, baseline: Baseline, comparable: Comparable) -> None:
    """Raise Incomparable if a run that has all its trials has other tasks than the baseline, unless only common ones are judged."""
    if comparable.common is not None:
        return
    blessed = {task for arm in baseline.arms.values() for task in arm.tasks}
    in_run = {record.task for record in run.records}
    for tasks, problem in ((in_run - blessed, "are not in the baseline"), (blessed - in_run, "of the baseline were not run")):
        if tasks and (has_all(run) or problem.startswith("are")):
            cures = [] if comparable.tasks is None else [f"{COMMON_ADVICE} those of both"]
            raise OtherQuestions(f"{run.folder}: other tasks: {len(tasks)} {problem}, such as {min(tasks)}", *cures, _HINT)


# --- the arms ---


def match_arms(manifest: Manifest, baseline: Baseline) -> dict[str, str | None]:
    """Return arm of the baseline → arm of the run, None if absent.

    Arms match by name, or else if only the version of a foreign loop differs, or if each side has a single loop under the same
    model and profile.
    """
    upgraded = upgrades(baseline.arms, {arm.arm: arm for arm in manifest.arms})
    in_run = {arm.arm: (arm.model, arm.profile) for arm in manifest.arms}
    blessed = {name: (arm.model, arm.profile) for name, arm in baseline.arms.items()}

    def alone(conditions: tuple[str, str]) -> str | None:
        old, new = ([name for name, its in side.items() if its == conditions] for side in (blessed, in_run))
        return new[0] if len(old) == len(new) == 1 else None

    return {name: name if name in in_run else upgraded[name] or alone(conditions) for name, conditions in blessed.items()}


def _found_arms(folder: Path, manifest: Manifest, baseline: Baseline) -> dict[str, str]:
    """Return arm of the baseline → arm of the run. Raises Incomparable for one that the run lacks, and says what it has instead."""
    matched = match_arms(manifest, baseline)
    arms = {old: arm for old, arm in matched.items() if arm is not None}
    for lost in (baseline.arms[old] for old in matched if old not in arms):
        for setting, then, now in (
            ("profile", lost.profile, {arm.profile for arm in manifest.arms}),
            ("model", lost.model, {arm.model for arm in manifest.arms}),
        ):
            if then not in now:
                raise OtherQuestions(
                    f"{folder}: another {setting} than in the baseline: {', '.join(sorted(now))}, not {then}", _HINT
                )
    if len(arms) < len(matched):
        lacking = [short_arm(old) for old in matched if old not in arms]
        has = ", ".join(short_arm(arm.arm) for arm in manifest.arms)
        raise Incomparable(
            f"{folder}: the run has no arm for {listed_names(lacking)} of the baseline", f"it has {has}", _way_out(manifest)
        )
    return arms


def _way_out(manifest: Manifest) -> str:
    """Return what to do about an arm that a run lacks; whichloop can run no agent whose results were imported."""
    if manifest.imported is None:
        alone = listed_names(list(dict.fromkeys(arm.info("").without_profile for arm in manifest.arms)))
        return f"run every loop of the baseline, as gate does without --loop, or bless a run of {alone} alone"
    return (
        "import what every agent of the baseline did into one run, name an agent as there (--arm), or bless an import of the one "
        "agent alone"
    )


# --- the metrics ---


def refuse_unknown(sides: Sequence[Sides], metrics: Iterable[str]) -> None:
    """Raise Incomparable for a metric unknown in more than 2 % of an arm's scored trials, on either side; of a metric that some
    trials have by its nature, for one that no arm has.
    """
    for metric in metrics:
        if METRICS[metric].of_some:
            if not any(side.knows(metric) for side in sides):
                raise Incomparable(f"metric {metric}: known for no trial, of no arm")
            continue
        for side in sides:
            for side_name, values in (("the baseline", side.old_values), ("the run", side.new_values)):
                known_trials, scored_trials = _count(values(metric)), _count(values(PRIMARY))
                if known_trials < (1 - MAX_ERRORED) * scored_trials:
                    of_scored = f"{known_trials:,} of {counted(scored_trials, 'trial')}"
                    raise Incomparable(f"metric {metric}: known for {of_scored} of {side.arm} in {side_name}")


def _count(by_task: TaskValues) -> int:
    return sum(map(len, by_task.values.values()))
