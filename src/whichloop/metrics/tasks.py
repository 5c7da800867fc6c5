"""What a run says about its tasks: which are flaky, which nobody solves, and where arms waste steps or claim too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .arm_info import ArmInfo
from .paired import mean_interval
from .record import Record
from .statistics import ALPHA, Interval, Plain, accuracy_interval

Kind = Literal["unsolved", "solved by one arm", "flaky", "false success"]


@dataclass(frozen=True, slots=True)
class TaskFinding(Plain):
    """One task, in all arms of its group."""

    task: str
    kinds: tuple[Kind, ...]
    """`unsolved`: by two arms or more, in no repeat: its answer may be wrong. `flaky`: an arm solves some repeats of it."""
    solved: Mapping[str, tuple[int, int]]
    """Arm → how many of its scored trials were solved, and of how many."""
    false_success: int | None
    """Trials; None: not known."""
    cheapest: int | None
    """Fewest steps of a trial that solved it; None: not known, or none did."""
    wasted_steps: float | None
    """Mean over all scored trials of the steps beyond the cheapest; None: not known."""
    repeated_calls: int | None
    """Calls made again after they had given a result, in all trials; None: not counted."""


@dataclass(frozen=True, slots=True)
class ArmFinding(Plain):
    """One arm, over the tasks of its group. Intervals are on task means; None: not known."""

    arm: str
    flaky: tuple[str, ...]
    """Tasks of which it solved some repeats and not all."""
    alone: tuple[str, ...]
    """Tasks that no other arm solved in any repeat; empty where there is no other."""
    false_success: Interval | None
    """Share of the scored trials."""
    wasted_steps: Interval | None
    """Steps per trial beyond the cheapest trial, of any arm, that solved the task; over the tasks that one did."""
    repeated_calls: Interval | None
    """Calls per trial that were made again after they had given a result."""


@dataclass(frozen=True, slots=True)
class GroupFindings(Plain):
    """The arms of one suite under one profile: they met the same tasks under the same disturbances."""

    suite: str
    profile: str
    tasks: int
    """With a scored trial."""
    repeats: int
    """Most scored trials of one arm on one task."""
    arms: tuple[ArmFinding, ...]
    notable: tuple[TaskFinding, ...]
    """Tasks of any kind, in order of their ids."""


_Cells = Mapping[str, Mapping[str, Sequence[Record]]]
"""Task → arm → its trials."""


def task_findings(records: Sequence[Record], arms: Sequence[ArmInfo], *, alpha: float = ALPHA) -> tuple[GroupFindings, ...]:
    """Return what the records say of each task, from one record per trial, in any order; only scored ones count.

    One group for each suite and profile, in the order of the arms.
    """
    groups: dict[tuple[str, str], dict[str, dict[str, list[Record]]]] = {}
    group_of = {info.arm: groups.setdefault((info.suite, info.profile), {}) for info in arms}
    for record in sorted(records, key=lambda record: record.key):
        if record.status == "scored":
            group_of[record.arm].setdefault(record.task, {}).setdefault(record.arm, []).append(record)
    return tuple(
        _group(suite, profile, [info.arm for info in arms if (info.suite, info.profile) == (suite, profile)], cells, alpha)
        for (suite, profile), cells in groups.items()
    )


def _group(suite: str, profile: str, arms: Sequence[str], cells: _Cells, alpha: float) -> GroupFindings:
    found = {task: _task(task, [each for arm in arms if (each := cells[task].get(arm))]) for task in sorted(cells)}
    return GroupFindings(
        suite=suite,
        profile=profile,
        tasks=len(cells),
        repeats=max((trials for task in found.values() for _, trials in task.solved.values()), default=0),
        arms=tuple(_arm(arm, found, cells, alpha) for arm in arms),
        notable=tuple(task for task in found.values() if task.kinds),
    )


def _task(task: str, by_arm: Sequence[Sequence[Record]]) -> TaskFinding:
    trials = [record for records in by_arm for record in records]
    solved = {records[0].arm: (sum(record.is_solved for record in records), len(records)) for records in by_arm}
    cheapest = min((record.steps for record in trials if record.is_solved and "steps" not in record.unknown), default=None)
    solvers = sum(count > 0 for count, _ in solved.values())
    claimed, wasted, repeated = _counts(trials, cheapest)
    kinds: dict[Kind, bool] = {
        "unsolved": solvers == 0 and len(solved) > 1,
        "solved by one arm": solvers == 1 and len(solved) > 1,
        "flaky": any(0 < count < of for count, of in solved.values()),
        "false success": any(claimed),
    }
    return TaskFinding(
        task=task,
        kinds=tuple(kind for kind, holds in kinds.items() if holds),
        solved=solved,
        false_success=sum(claimed) if claimed else None,
        cheapest=cheapest,
        wasted_steps=sum(wasted) / len(wasted) if wasted else None,
        repeated_calls=sum(repeated) if repeated else None,
    )


def _counts(trials: Sequence[Record], cheapest: int | None) -> tuple[list[int], list[int], list[int]]:
    """Return false successes, wasted steps and repeated calls of each trial in which they are known.

    A trial that gave up before the cheapest one was done has wasted no steps.
    """
    claimed = [int(record.false_success) for record in trials if "false_success" not in record.unknown]
    wasted = [max(record.steps - cheapest, 0) for record in trials if "steps" not in record.unknown] if cheapest is not None else []
    return claimed, wasted, [record.repeated_calls for record in trials if "repeated_calls" not in record.unknown]


def _arm(arm: str, found: Mapping[str, TaskFinding], cells: _Cells, alpha: float) -> ArmFinding:
    own = {task: cells[task][arm] for task in found if arm in cells[task]}
    solved = {task: found[task].solved for task in own}
    solvers = {task: [name for name, (count, _) in by_arm.items() if count] for task, by_arm in solved.items()}
    counts = {task: _counts(trials, found[task].cheapest) for task, trials in own.items()}
    clusters = {task: trials[0].cluster for task, trials in own.items()}

    def mean(place: int, *, is_share: bool = False) -> Interval | None:
        values = {task: each[place] for task, each in counts.items() if each[place]}
        of_tasks = [clusters[task] for task in values]
        if not values or is_share:
            return accuracy_interval([*values.values()], of_tasks, alpha) if values else None
        return mean_interval([sum(each) / len(each) for each in values.values()], of_tasks, alpha)

    return ArmFinding(
        arm=arm,
        flaky=tuple(task for task in own if 0 < solved[task][arm][0] < solved[task][arm][1]),
        alone=tuple(task for task in own if len(solved[task]) > 1 and solvers[task] == [arm]),
        false_success=mean(0, is_share=True),
        wasted_steps=mean(1),
        repeated_calls=mean(2),
    )
