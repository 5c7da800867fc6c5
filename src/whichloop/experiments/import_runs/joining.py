"""Joins several files into one comparison: equal arms are pooled, equal tasks must ask the same, every cell gets a trial."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.metrics.arm_warnings import AS_FAILURES, made_failures
from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.record import RECORD_VERSION, Record
from whichloop.metrics.statistics import ALPHA
from whichloop.protocol import StopReason
from whichloop.protocol.digest import SHORT_DIGITS, digest, short_digest
from whichloop.protocol.modules import package_version
from whichloop.protocol.values import counted as number_of
from whichloop.runs.manifest import ArmEntry, ImportOrigin, Manifest, SuiteEntry, TaskDigests, timestamp

from .foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, ReadingOptions, TrialKey, with_counts
from .values import ScoreScale, located, name_of, names_in_a_line, score_range, short_value

VERSION = "imported"
"""The suite's version."""
ARMS_OR_REPEATS = "say whether they are two arms, --arm A --arm B, or repeats of one, --arm A --arm A"
ANOTHERS_TRACE = "the trace is of another arm, and a task of its own"
MAX_ARMS = 64
"""Maximum number of arms; more are a sign of a wrong column."""
MAX_NAMED_TASKS = 2
"""Tasks of an arm that a message names."""
MIN_USED = 0.05
"""Share of a given scale below which scores that use no more of it are told: it may be another scale's."""
MAX_CELLS = 2_000_000
"""Maximum of arms × tasks × repeats."""


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
        """Check level and margin. Raises ValueError if one is outside of (0, 1)."""
        for name, value in (("alpha", self.alpha), ("margin", self.margin)):
            if not 0 < value < 1:
                raise ValueError(f"--{name} is not between 0 and 1: {value:g}")
        if self.models and len(self.models) != len(self.arms):
            raise ValueError(f"--model names the model of each --arm in turn: {len(self.arms)} arms, {len(self.models)} models")


@dataclass(frozen=True, slots=True)
class Joined:
    """The content of all files, joined into one run."""

    manifest: Manifest
    records: tuple[Record, ...]
    traces: tuple[ForeignTrace | None, ...]
    """Of each record what happened in its trial; None if no file tells it."""


def rename_arms(logs: Sequence[ForeignLog], request: ImportRequest) -> list[ForeignLog]:
    """Give the files' arms the names that the user typed; equal names are one arm, whose repeats are counted on per task."""
    names = request.arms
    models: Sequence[str | None] = request.models or [None] * len(names)
    if not names:
        return list(logs)
    if len(names) != len(logs):
        there = f"{number_of(len(logs), 'file')}, {number_of(len(names), 'name')}"
        raise ValueError(f"--arm names the arm of each file in turn: {there}")
    free: dict[tuple[str, str], int] = {}
    renamed = []
    for log, typed, model in zip(map(_of_one_loop, logs) if request.models else logs, names, models, strict=True):
        if len(log.arms) != 1:
            several = names_in_a_line([arm.name for arm in log.arms])
            raise ValueError(f"{log.path}: --arm names one arm per file, and this one holds {len(log.arms)}: {several}")
        arm = _renamed(log.arms[0], typed, model)
        name = arm.name
        first = {task: free.get((name, task), 0) for task in log.questions}
        repeats = log.repeats
        free |= {(name, task): repeat + repeats for task, repeat in first.items()}
        trials = tuple(replace(trial, arm=name, repeat=trial.repeat + first[trial.task]) for trial in log.trials)
        before = max(first.values(), default=0)
        due = repeats + before if before else log.due_repeats
        renamed.append(replace(log, arms=(arm,), trials=trials, due_repeats=due))
    return renamed


def _of_one_loop(log: ForeignLog) -> ForeignLog:
    """Pool the arms of a file that differ in what it says of their model only: the user says it for all of them."""
    if len(log.arms) == 1 or not log.arms[0].loop or len({digest([arm.loop, arm.options]) for arm in log.arms}) > 1:
        return log
    arm, repeats = log.arms[0], Counter[str]()
    note = f"{names_in_a_line([one.model for one in log.arms])} are taken as the one model of --model"
    trials = []
    for trial in log.trials:
        trials.append(replace(trial, arm=arm.name, repeat=repeats[trial.task]))
        repeats[trial.task] += 1
    return replace(log, arms=(arm,), trials=tuple(trials), notes=(*log.notes, note))


def _renamed(arm: ForeignArm, typed: str, model: str | None) -> ForeignArm:
    with located("--arm"):
        name = name_of(typed, "a name")
    if model is None:
        return replace(arm, name=name)
    with located("--model"):
        model_name = name_of(model, "a name")
    return replace(arm, name=f"{name}/{model_name}", loop=name, model=model_name)


def join(logs: Sequence[ForeignLog], request: ImportRequest) -> Joined:
    """Join files into one comparison. Raises ValueError if their questions differ, or for duplicate trials."""
    arms, questions, scorer = _arms(logs), _questions(logs), _scorer(logs)
    suite = _suite(logs) if request.suite is None else name_of(request.suite, "suite")
    repeats = max(log.repeats for log in logs)
    if len(arms) * len(questions) * repeats > MAX_CELLS:
        raise ValueError(f"{len(arms)} arms × {len(questions)} tasks × {repeats} repeats are more than {MAX_CELLS} trials")
    paths = ", ".join(str(log.path) for log in logs)
    trials = _complete(logs, arms, questions, repeats)
    with located(paths):
        trials = _clustered(trials)
    reading = request.reading
    if reading.cluster is not None and not any(trial.cluster for trial in trials):
        raise ValueError(f"{paths}: --cluster: no trial has {short_value(reading.cluster)}")
    trials = [with_counts(trial) for trial in trials]
    if reading.errors_as_failures:
        trials = [_failure(trial) for trial in trials]
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
        versions={"record": RECORD_VERSION, "policy_and_profiles": None},
        task_digests=task_digests,
        suite=SuiteEntry(name=suite, version=VERSION, digest=suite_digest, tasks=len(questions)),
        profiles={profile: digest(profile) for profile in profiles},
        arms=tuple(map(_arm_entry, arms)),
        packages={"whichloop": package_version("whichloop")},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )
    records = tuple(trial.record(suite, suite_digest) for trial in trials)
    return Joined(manifest, records, tuple(trial.trace for trial in trials))


def names_alike(joined: Joined) -> Iterator[str]:
    """Yield which arms are called the same but for the case of their letters, since they may be one."""
    alike: dict[str, list[str]] = {}
    for arm in joined.manifest.arms:
        alike.setdefault(arm.arm.casefold(), []).append(arm.arm)
    for names in alike.values():
        if len(names) > 1:
            yield f"arms {names_in_a_line(names)} differ in the case of letters only; if they are one, write one name in the file"


def tasks_alike(joined: Joined) -> str:
    """Return that some tasks differ only in the case of their letters or in spaces, with one pair; empty where none do."""
    alike: dict[str, list[str]] = {}
    for task in sorted({record.task for record in joined.records}):
        alike.setdefault("".join(task.casefold().split()), []).append(task)
    pairs = [names for names in alike.values() if len(names) > 1]
    if not pairs:
        return ""
    many = "" if len(pairs) == 1 else f", and {number_of(len(pairs) - 1, 'other pair')} likewise"
    first, second = map(short_value, pairs[0][:2])
    return f"tasks {first} and {second} differ only in case or spaces{many}; if they are one task, write one name in the file"


def scale_hardly_used(joined: Joined, scale: ScoreScale | None) -> str:
    """Return that the scores use hardly any of the scale that the user gave; empty where they use enough of it."""
    scores = [record.accuracy for record in joined.records if record.status == "scored"] if scale is not None else []
    if scale is None or not scores:
        return ""
    low, high = min(scores), max(scores)
    if high - low >= MIN_USED or (low == high and low in (0.0, 1.0)):
        return ""
    ends = [scale.worst + share * (scale.best - scale.worst) for share in (low, high)]
    range_seen, used = score_range(ends), f"{100 * (high - low):.2g} % of --scale {scale}"
    return f"{range_seen} use {used}; if that is not the scale of these scores, say which it is"


def errors_as_failures(logs: Sequence[ForeignLog], joined: Joined) -> str:
    """Return how many trials that an error ended are scored 0 by that flag; empty if none is."""
    errored = {trial.key for log in logs for trial in log.trials if trial.status == "errored"}
    scored = sum(record.status == "scored" and record.key in errored for record in joined.records)
    failed_trials = number_of(scored, "trial that an error ended is", "trials that an error ended are")
    return f"{AS_FAILURES}: {failed_trials} scored 0" if scored else ""


def errors_may_be_failures(joined: Joined) -> str:
    """Return how many left-out trials an error ended, and the flag that scores them; empty if none did."""
    crashed = sum(record.status == "errored" and record.stop == StopReason.CRASHED for record in joined.records)
    trials = number_of(crashed, "trial was", "trials were")
    scored = "it" if crashed == 1 else "them"
    sentence = f"{trials} ended by an error: if that was the agents' own failure, {AS_FAILURES} scores {scored} 0"
    return sentence if crashed else ""


def errors_not_as_failures(joined: Joined) -> str:
    """Return how many errored trials that flag did not apply to, and what would; empty if there is none."""
    errored = [record for record in joined.records if record.status == "errored"]
    stay = number_of(len(errored), "errored trial stays", "errored trials stay")
    cure = f"to count them as failures, {made_failures(errored, imported_so=True)}"
    return f"{AS_FAILURES}: {stay} left out; {cure}" if errored else ""


def nothing_in_common(joined: Joined) -> str:
    """Return that no task was scored in two arms that were to be compared, and which tasks they have; empty where one was."""
    tasks: dict[str, dict[str, None]] = {}
    for record in joined.records:
        if record.status == "scored":
            tasks.setdefault(record.arm, {})[record.task] = None
    arms_of: dict[str, list[str]] = {}
    for arm in joined.manifest.arms:
        if arm.arm in tasks:
            arms_of.setdefault(arm.profile, []).append(arm.arm)
    several = [arms for arms in arms_of.values() if len(arms) > 1]
    if not several or any(max(Counter(task for arm in arms for task in tasks[arm]).values()) > 1 for arms in several):
        return ""
    named = "; ".join(f"{arm}: {names_in_a_line(list(tasks[arm]), MAX_NAMED_TASKS)}" for arm in several[0][:2])
    return f"nothing is compared: no task was scored in two arms ({named})"


def _origin(logs: Sequence[ForeignLog], reading: ReadingOptions) -> dict[str, Any]:
    return {
        "format": "+".join(sorted({log.format for log in logs})),
        "from": [
            {
                "file": log.path.name,
                "sha256": log.sha256,
                "format": log.format,
                "by": log.by,
                "arms": [arm.name for arm in log.arms],
                "readings": list(log.readings),
            }
            for log in logs
        ],
        "cluster": reading.cluster or next((log.cluster for log in logs if log.cluster), None),
        "errors_as_failures": reading.errors_as_failures,
    }


def _arm_entry(arm: ForeignArm) -> ArmEntry:
    """Return an arm as a manifest lists it; its code is not known."""
    loop, options = arm.loop or arm.name, dict(arm.options)
    return ArmEntry(arm=arm.name, loop=loop, options=options, model=arm.model, profile=arm.profile, code="")


# --- consistency ---


def _arms(logs: Sequence[ForeignLog]) -> tuple[ForeignArm, ...]:
    """Return each arm once, in the order of the files."""
    by_name: dict[str, ForeignArm] = {}
    for log in logs:
        if not log.trials:
            raise ValueError(f"{log.path}: holds no trial")
        for arm in log.arms:
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
                raise ValueError(f"{log.path}: task {short_value(task)} asks, or expects, something else than in {first.path}")
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
    imports = {trial.imported_tasks for log in logs for trial in log.trials}
    first = next(iter(imports)) if len(imports) == 1 and reading.scorer is None and reading.scale is None else None
    if first is not None and first.number == len(tasks):
        return first.digest, TaskDigests(shared=first.shared, tasks=tasks)
    shared = short_digest([scorer, scale]) if first is None else first.shared
    return digest([sorted(questions.items()), scorer, scale]), TaskDigests(shared=shared, tasks=tasks)


def _scorer(logs: Sequence[ForeignLog]) -> str:
    """Return the score that is the accuracy, which must be the same in every file that names it."""
    names = list(dict.fromkeys(log.scorer for log in logs if log.scorer))
    if len(names) > 1:
        raise ValueError(
            f"the files are scored by {names_in_a_line(names)}: one accuracy is not the other; choose: --scorer {names[0]}"
        )
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
                raise ValueError(_duplicate(trial, log, by_key[trial.key][1]))
            by_key[trial.key] = (trial, log)
    due = {arm.name: _due_repeats(arm.name, logs, repeats) for arm in arms}
    missing = {arm.name: _substitute(arm.name, [log for log in logs if arm.name in {one.name for one in log.arms}]) for arm in arms}
    cells = [(arm.name, task, repeat) for arm in arms for task in tasks for repeat in range(repeats)]
    own_tasks = {task for log in logs for task in log.own_tasks}
    return [
        by_key[cell][0] if cell in by_key else _of_cell(missing[cell[0]], cell, own_tasks)
        for cell in cells
        if cell in by_key or cell[2] in due[cell[0]]
    ]


def _of_cell(substitute: ForeignTrial, cell: TrialKey, own_tasks: Set[str]) -> ForeignTrial:
    _, task, repeat = cell
    reason = ANOTHERS_TRACE if task in own_tasks else substitute.reason
    return replace(substitute, task=task, repeat=repeat, reason=reason)


def _due_repeats(arm: str, logs: Sequence[ForeignLog], repeats: int) -> set[int]:
    """Return the repeats that every task of an arm was due to have."""
    tasks, tasks_with = set[str](), Counter[int]()
    for trial in (trial for log in logs for trial in log.trials if trial.arm == arm):
        tasks.add(trial.task)
        tasks_with[trial.repeat] += 1
    due = max((log.due_repeats for log in logs if arm in {one.name for one in log.arms}), default=1)
    return {repeat for repeat in range(repeats) if repeat < due or 2 * tasks_with[repeat] > len(tasks)}


def _substitute(arm: str, logs: Sequence[ForeignLog]) -> ForeignTrial:
    broken = next((log for log in logs if log.unfinished), None)
    if broken is not None:
        return ForeignTrial(arm, "", 0, status="errored", reason=f"not run: {broken.unfinished}")
    return ForeignTrial(arm, "", 0, status="excluded", reason=f"not in {names_in_a_line([log.path.name for log in logs])}")


def _duplicate(trial: ForeignTrial, log: ForeignLog, first: ForeignLog) -> str:
    arm, task, repeat = trial.key
    text = f"{log.path}: arm {arm}, task {task}, repeat {repeat}"
    if log is first:
        return f"{text} is a duplicate"
    return f"{text} is there and in {first.path}; {ARMS_OR_REPEATS}"


def _clustered(trials: Sequence[ForeignTrial]) -> list[ForeignTrial]:
    """Give each trial the cluster of its task: some trials, such as those that never ran, do not name it."""
    clusters: dict[str, str] = {}
    for trial in trials:
        if trial.cluster and clusters.setdefault(trial.task, trial.cluster) != trial.cluster:
            both = f"{short_value(clusters[trial.task])} and {short_value(trial.cluster)}"
            raise ValueError(f"task {short_value(trial.task)} is of two clusters, {both}")
    return [replace(trial, cluster=clusters.get(trial.task, "")) for trial in trials]


def _failure(trial: ForeignTrial) -> ForeignTrial:
    """Score a trial 0 if an error ended it or its tool counts it so, but not if it could not be scored, or never ran."""
    if trial.status != "errored" or not (trial.stop == StopReason.CRASHED or trial.counts_as_failure):
        return trial
    return replace(trial, status="scored", score=0.0)
