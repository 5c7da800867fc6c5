"""Joins several files into one comparison: equal arms are pooled, equal tasks must ask the same, every cell gets a trial."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.record import RECORD_VERSION, Record
from whichloop.metrics.statistics import ALPHA
from whichloop.protocol import StopReason
from whichloop.protocol.json_text import SHORT_DIGITS, digest, short_digest
from whichloop.protocol.modules import package_version
from whichloop.protocol.values import counted as number_of
from whichloop.protocol.values import shown_short
from whichloop.runs.manifest import ArmEntry, ImportOrigin, Manifest, SuiteEntry, TaskDigests, timestamp

from .foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, ReadingOptions, TrialKey, with_counts
from .values import located, name_of, names_in_a_line

VERSION = "imported"
"""The suite's version."""
ARMS_OR_REPEATS = "say whether they are two arms, --arm A --arm B, or repeats of one, --arm A --arm A"
ANOTHERS_TRACE = "the trace is of another arm, and a task of its own"
NOT_READ = "not read"
MAX_ARMS = 64
"""Maximum number of arms; more are a sign of a wrong column."""
MAX_CELLS = 2_000_000


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The user's request for an import."""

    format: str | None = None
    """The format of all files; None: recognized in each file."""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    arms: Sequence[str] = ()
    """Names that replace the files' arm names, one per file; equal ones are repeats of one arm."""
    models: Sequence[str] = ()
    """The models of the files' arms, one per file: then each name in `arms` is of a loop, and an arm is called LOOP/MODEL."""
    suite: str | None = None
    """A name that replaces the files' name of the suite."""
    alpha: float = ALPHA
    margin: float = MARGIN
    replace: bool = False
    """Whether an imported run that has the new one's name is replaced."""

    def __post_init__(self) -> None:
        """Check level and margin."""
        for name, value in (("alpha", self.alpha), ("margin", self.margin)):
            if not 0 < value < 1:
                raise ValueError(f"--{name} is not between 0 and 1: {value:g}")
        if self.models and len(self.models) != len(self.arms):
            raise ValueError(f"--model names the model of each --arm in turn: {len(self.arms)} arms, {len(self.models)} models")
        for name, given in (("--arm", self.arms), ("--model", self.models)):
            for one in given:
                with located(name):
                    name_of(one, "a name")


def rename_arms(logs: Sequence[ForeignLog], request: ImportRequest) -> None:
    """Give the files' arms the names that the user typed; equal names are one arm, whose repeats are counted on per task."""
    if not request.arms:
        return
    if len(request.arms) != len(logs):
        there = f"{number_of(len(logs), 'file')}, {number_of(len(request.arms), 'name')}"
        raise ValueError(f"--arm names the arm of each file in turn: {there}")
    free: Counter[tuple[str, str]] = Counter()
    models: Sequence[str | None] = request.models or [None] * len(logs)
    for log, typed, model in zip(logs, request.arms, models, strict=True):
        is_one_loop = model is not None and all(arm.loop for arm in log.arms.values())
        if is_one_loop and len({digest([arm.loop, arm.options]) for arm in log.arms.values()}) == 1 < len(log.arms):
            _pool(log)
        if len(log.arms) != 1:
            held = f"this one holds {len(log.arms)}: {names_in_a_line([*log.arms])}"
            raise ValueError(f"{log.path}: --arm names one arm per file, and {held}")
        (arm,), loop = log.arms.values(), name_of(typed, "a name")
        arm = replace(arm, name=loop) if model is None else replace(arm, name=f"{loop}/{model}", loop=loop, model=model)
        first, repeats = {task: free[arm.name, task] for task in log.questions}, log.repeats
        free.update({(arm.name, task): repeats for task in log.questions})
        log.arms = {arm.name: arm}
        log.trials = [replace(trial, arm=arm.name, repeat=trial.repeat + first[trial.task]) for trial in log.trials]
        before = max(first.values(), default=0)
        log.due_repeats = repeats + before if before else log.due_repeats


def _pool(log: ForeignLog) -> None:
    """Take the arms of a file as one that differ in what it says of their model only: the user says it for all of them."""
    log.notes.append(f"{names_in_a_line([one.model for one in log.arms.values()])} are taken as the one model of --model")
    name, repeats = next(iter(log.arms)), Counter[str]()
    for place, trial in enumerate(log.trials):
        log.trials[place] = replace(trial, arm=name, repeat=repeats[trial.task])
        repeats[trial.task] += 1
    log.arms = {name: log.arms[name]}


def join(logs: Sequence[ForeignLog], request: ImportRequest) -> tuple[Manifest, list[tuple[Record, ForeignTrace | None]]]:
    """Join files into one comparison: its manifest, and each record with what happened in its trial, if a file tells it."""
    arms, questions, scorer, reading = _arms(logs), _questions(logs), _scorer(logs), request.reading
    suite = _suite(logs) if request.suite is None else name_of(request.suite, "suite")
    repeats = max(log.repeats for log in logs)
    if len(arms) * len(questions) * repeats > MAX_CELLS:
        raise ValueError(f"{len(arms)} arms × {len(questions)} tasks × {repeats} repeats are more than {MAX_CELLS} trials")
    with located(", ".join(str(log.path) for log in logs)):
        trials = _clustered(_complete(logs, arms, questions, repeats), reading.columns.get("cluster"))
    trials = list(map(with_counts, trials))
    for place, trial in enumerate(trials if reading.errors_as_failures else ()):
        if trial.status == "errored" and trial.stop == StopReason.CRASHED:  # not one that never ran, or could not be scored
            trials[place] = replace(trial, status="scored", score=0.0)
    scale = None if reading.scale is None else str(reading.scale)
    suite_digest, task_digests = _digests(logs, questions, scorer, scale, reading)
    profiles = list(dict.fromkeys(arm.profile for arm in arms))
    manifest = Manifest(
        created=timestamp(),
        imported=ImportOrigin.model_validate(_origin(logs, reading) | {"scorer": scorer, "scale": scale}),
        config={
            "suite": suite,
            "profiles": profiles,
            "models": list(dict.fromkeys(arm.model for arm in arms)),
            "repeats": repeats,
            "seed": 0,
            "alpha": request.alpha,
            "margin": request.margin,
        },
        seed=0,
        rows=len(trials),
        versions={"record": RECORD_VERSION, "policy_and_profiles": None},
        task_digests=task_digests,
        suite=SuiteEntry(name=suite, version=VERSION, digest=suite_digest, tasks=len(questions)),
        profiles={profile: digest(profile) for profile in profiles},
        arms=tuple(
            ArmEntry(arm=a.name, loop=a.loop or a.name, options=dict(a.options), model=a.model, profile=a.profile, code="")
            for a in arms
        ),
        packages={"whichloop": package_version("whichloop")},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )
    return manifest, [(trial.record(suite, suite_digest), trial.trace) for trial in trials]


def nothing_in_common(manifest: Manifest, records: Iterable[Record]) -> str:
    """Return that no task was scored in two arms that were to be compared, and which tasks they have; empty where one was."""
    arms_of: dict[str, dict[str, dict[str, None]]] = {}
    profiles = {arm.arm: arm.profile for arm in manifest.arms}
    for record in records:
        if record.status == "scored":
            arms_of.setdefault(profiles[record.arm], {}).setdefault(record.arm, {})[record.task] = None
    several = [tasks for tasks in arms_of.values() if len(tasks) > 1]
    if not several or any(max(Counter(task for tasks in arms.values() for task in tasks).values()) > 1 for arms in several):
        return ""
    named = "; ".join(f"{arm}: {names_in_a_line(list(tasks), 2)}" for arm, tasks in list(several[0].items())[:2])
    return f"nothing is compared: no task was scored in two arms ({named})"


def _origin(logs: Sequence[ForeignLog], reading: ReadingOptions) -> dict[str, Any]:
    clusters = [name for log in logs for name, meaning in log.columns.items() if meaning == "cluster"]
    return {
        "format": "+".join(sorted({log.format for log in logs})),
        "from": [
            {
                "file": log.path.name,
                "sha256": log.sha256,
                "format": log.format,
                "by": log.by,
                "arms": list(log.arms),
                "readings": [
                    *filter(None, [", ".join(f"{one} → {read or NOT_READ}" for one, read in log.columns.items())]),
                    *log.readings,
                ],
            }
            for log in logs
        ],
        "cluster": next(iter([*filter(None, [reading.columns.get("cluster")]), *clusters]), None),
        "errors_as_failures": reading.errors_as_failures,
    }


# --- consistency ---


def _arms(logs: Sequence[ForeignLog]) -> tuple[ForeignArm, ...]:
    by_name: dict[str, ForeignArm] = {}
    for log in logs:
        if not log.trials:
            raise ValueError(f"{log.path}: holds no trial")
        for arm in log.arms.values():
            first = by_name.setdefault(arm.name, arm)
            if first.model != arm.model:
                by_name[arm.name] = replace(first, model="several")
    if len(by_name) > MAX_ARMS:
        raise ValueError(f"{logs[0].path}: {len(by_name)} arms, more than {MAX_ARMS}: {names_in_a_line(list(by_name))}")
    return tuple(by_name.values())


def _questions(logs: Sequence[ForeignLog]) -> dict[str, str]:
    """Return the digest of each task's question, which must be the same in every file that has it."""
    by_task: dict[str, tuple[str, ForeignLog]] = {}
    for log in logs:
        for task, question in log.questions.items():
            first_question, first = by_task.setdefault(task, (question, log))
            if first_question and question and _question_digest(first_question) != _question_digest(question):
                raise ValueError(f"{log.path}: task {shown_short(task)} asks, or expects, something else than in {first.path}")
            if len(question) > len(first_question):
                by_task[task] = (question, log)
    return {task: question for task, (question, _) in by_task.items()}


def _question_digest(question: str) -> str:
    """Return the short digest of a question, which is all that a trial may tell that was exported from an import."""
    return question if len(question) == SHORT_DIGITS else short_digest(question)


def _digests(
    logs: Sequence[ForeignLog], questions: Mapping[str, str], scorer: str, scale: str | None, reading: ReadingOptions
) -> tuple[str, TaskDigests]:
    """Return the digest of the suite and those of its tasks; of trials exported from one import, what these were there."""
    tasks = {task: _question_digest(question) for task, question in sorted(questions.items())}
    imports = {trial.imported and trial.imported._replace(asked="") for log in logs for trial in log.trials}
    first = next(iter(imports)) if len(imports) == 1 and reading.scorer is None and reading.scale is None else None
    if first is not None and first.tasks == len(tasks):
        return first.suite, TaskDigests(shared=first.shared, tasks=tasks)
    shared = short_digest([scorer, scale]) if first is None else first.shared
    return digest([sorted(questions.items()), scorer, scale]), TaskDigests(shared=shared, tasks=tasks)


def _scorer(logs: Sequence[ForeignLog]) -> str:
    """Return the score that is the accuracy, which must be the same in every file that names it."""
    names = list(dict.fromkeys(log.scorer for log in logs if log.scorer))
    if len(names) > 1:
        said = f"the files are scored by {names_in_a_line(names)}: one accuracy is not the other"
        raise ValueError(f"{said}; choose: --scorer {names[0]}")
    return names[0] if names else ""


def _suite(logs: Sequence[ForeignLog]) -> str:
    """Return the files' name of the suite; files with different names must share tasks."""
    names = sorted({log.suite for log in logs})
    if len(names) > 1 and not set.intersection(*(set(log.questions) for log in logs)):
        raise ValueError(f"{names_in_a_line(names)} have no task in common; import what ran on the same tasks")
    return " + ".join(names)


# --- cells ---


def _complete(logs: Sequence[ForeignLog], arms: Sequence[ForeignArm], tasks: Iterable[str], repeats: int) -> list[ForeignTrial]:
    """Return a trial for every cell: if no file holds it, errored where the file breaks off, else excluded, with the reason.

    A repeat that at most half of an arm's tasks have, and that no file says was due, is one of these tasks': no other lacks it.
    """
    by_key: dict[TrialKey, tuple[ForeignTrial, ForeignLog]] = {}
    for log in logs:
        for trial in log.trials:
            if trial.key in by_key:
                first, where = by_key[trial.key][1], "arm {}, task {}, repeat {}".format(*trial.key)
                said = "is a duplicate" if log is first else f"is there and in {first.path}; {ARMS_OR_REPEATS}"
                raise ValueError(f"{log.path}: {where} {said}")
            by_key[trial.key] = (trial, log)
    own_tasks = {task for log in logs for task in log.own_tasks}
    trials: list[ForeignTrial] = []
    for arm in arms:
        files = [log for log in logs if arm.name in log.arms]
        ran = [key for key in by_key if key[0] == arm.name]
        tasks_with, number = Counter(repeat for *_, repeat in ran), len({task for _, task, _ in ran})
        due = {one for one in range(repeats) if one < max(log.due_repeats for log in files) or 2 * tasks_with[one] > number}
        broken = next((log.unfinished for log in files if log.unfinished), "")
        absent = f"not run: {broken}" if broken else f"not in {names_in_a_line([log.path.name for log in files])}"
        for task in tasks:
            reason = ANOTHERS_TRACE if task in own_tasks else absent
            for repeat in range(repeats):
                if (arm.name, task, repeat) in by_key:
                    trials.append(by_key[arm.name, task, repeat][0])
                elif repeat in due:
                    trials.append(ForeignTrial(arm.name, task, repeat, "errored" if broken else "excluded", reason))
    return trials


def _clustered(trials: Sequence[ForeignTrial], named: str | None) -> list[ForeignTrial]:
    """Give each trial the cluster of its task: some trials, such as those that never ran, do not name it.

    `named`: what the user says that the clusters are.
    """
    clusters: dict[str, str] = {}
    for trial in trials:
        if trial.cluster and clusters.setdefault(trial.task, trial.cluster) != trial.cluster:
            both = f"{shown_short(clusters[trial.task])} and {shown_short(trial.cluster)}"
            raise ValueError(f"task {shown_short(trial.task)} is of two clusters, {both}")
    if named and not clusters:
        raise ValueError(f"--map cluster: no trial has {shown_short(named)}")
    return [replace(trial, cluster=clusters.get(trial.task, "")) for trial in trials]
