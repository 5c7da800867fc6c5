"""What a run says about its tasks: which are flaky, which nobody solves, and where arms waste steps or claim too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .arm_info import ArmInfo
from .paired import mean_interval
from .record import Record
from .record_table import alike, by_key
from .statistics import ALPHA, Interval, accuracy_interval, interval_json

Kind = Literal["unsolved", "solved by one arm", "flaky", "false success"]


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """One task, in all arms of its group."""

    task: str
    kinds: tuple[Kind, ...]
    """`unsolved`: by two arms or more, in no repeat: its answer may be wrong. `flaky`: an arm solves some repeats of it."""
    solved: Mapping[str, tuple[int, int]]
    """Arm → how many of its scored trials were solved."""
    false_success: int | None
    """Trials; None: not known."""
    cheapest: int | None
    """Fewest steps of a trial that solved it; None: not known, or none did."""
    wasted_steps: float | None
    """Mean over all scored trials of the steps beyond the cheapest; None: not known."""
    repeated_calls: int | None
    """Calls made again after they had given a result, in all trials; None: not counted."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "task": self.task,
            "kinds": list(self.kinds),
            "solved": {arm: list(counts) for arm, counts in self.solved.items()},
            "false_success": self.false_success,
            "cheapest": self.cheapest,
            "wasted_steps": self.wasted_steps,
            "repeated_calls": self.repeated_calls,
        }


@dataclass(frozen=True, slots=True)
class ArmFinding:
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

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "flaky": list(self.flaky),
            "alone": list(self.alone),
            "false_success": interval_json(self.false_success),
            "wasted_steps": interval_json(self.wasted_steps),
            "repeated_calls": interval_json(self.repeated_calls),
        }


@dataclass(frozen=True, slots=True)
class GroupFindings:
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

    def of_kind(self, kind: Kind) -> tuple[str, ...]:
        """Return ids of the tasks of a kind."""
        return tuple(task.task for task in self.notable if kind in task.kinds)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "suite": self.suite,
            "profile": self.profile,
            "tasks": self.tasks,
            "repeats": self.repeats,
            "arms": [arm.to_json() for arm in self.arms],
            "notable": [task.to_json() for task in self.notable],
        }


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """One group for each suite and profile, in the order of the arms."""

    groups: tuple[GroupFindings, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain JSON."""
        return [group.to_json() for group in self.groups]


def task_findings(records: Sequence[Record], arms: Sequence[ArmInfo], *, alpha: float = ALPHA) -> TaskFindings:
    """Return what the records say of each task, from one record per trial, in any order; only scored ones count."""
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    place = {info.arm: groups.setdefault((info.suite, info.profile), {}).setdefault(info.arm, []) for info in arms}
    for record in alike(by_key(records)):
        if record.status == "scored":
            place[record.arm].append(record)
    return TaskFindings(tuple(_group(suite, profile, by_arm, alpha) for (suite, profile), by_arm in groups.items()))


def _group(suite: str, profile: str, by_arm: Mapping[str, Sequence[Record]], alpha: float) -> GroupFindings:
    cells: dict[str, dict[str, list[Record]]] = {}
    """Task → arm → its trials."""
    for arm, records in by_arm.items():
        for record in records:
            cells.setdefault(record.task, {}).setdefault(arm, []).append(record)
    cheapest = {task: _cheapest(arms) for task, arms in cells.items()}
    findings = [_task(task, cells[task], cheapest[task]) for task in sorted(cells)]
    return GroupFindings(
        suite=suite,
        profile=profile,
        tasks=len(cells),
        repeats=max((len(trials) for arms in cells.values() for trials in arms.values()), default=0),
        arms=tuple(_arm(arm, cells, cheapest, alpha) for arm in by_arm),
        notable=tuple(task for task in findings if task.kinds),
    )


def _cheapest(arms: Mapping[str, Sequence[Record]]) -> int | None:
    trials = (record for records in arms.values() for record in records)
    return min((record.steps for record in trials if record.is_solved and "steps" not in record.unknown), default=None)


def _task(task: str, arms: Mapping[str, Sequence[Record]], cheapest: int | None) -> TaskFinding:
    trials = [record for records in arms.values() for record in records]
    solved = {arm: (sum(record.is_solved for record in records), len(records)) for arm, records in arms.items()}
    solvers = sum(count > 0 for count, _ in solved.values())
    claimed = _known_values(trials, "false_success", lambda record: record.false_success)
    kinds: dict[Kind, bool] = {
        "unsolved": solvers == 0 and len(arms) > 1,
        "solved by one arm": solvers == 1 and len(arms) > 1,
        "flaky": any(map(_is_flaky, arms.values())),
        "false success": any(claimed),
    }
    wasted = [steps for record in trials if (steps := _wasted(record, cheapest)) is not None]
    counted = [record.repeated_calls for record in trials if "repeated_calls" not in record.unknown]
    return TaskFinding(
        task=task,
        kinds=tuple(kind for kind, holds in kinds.items() if holds),
        solved=solved,
        false_success=int(sum(claimed)) if claimed else None,
        cheapest=cheapest,
        wasted_steps=sum(wasted) / len(wasted) if wasted else None,
        repeated_calls=sum(counted) if counted else None,
    )


def _arm(
    arm: str, cells: Mapping[str, Mapping[str, Sequence[Record]]], cheapest: Mapping[str, int | None], alpha: float
) -> ArmFinding:
    trials_by_task = {task: arms[arm] for task, arms in sorted(cells.items()) if arm in arms}
    alone = [
        task
        for task, trials in trials_by_task.items()
        if len(cells[task]) > 1
        and any(record.is_solved for record in trials)
        and not any(record.is_solved for other, records in cells[task].items() if other != arm for record in records)
    ]
    claimed = {
        task: _known_values(trials, "false_success", lambda record: float(record.false_success))
        for task, trials in trials_by_task.items()
    }
    wasted = {
        task: _known_values(trials, "steps", lambda record: _wasted(record, cheapest[record.task]))
        for task, trials in trials_by_task.items()
    }
    repeated = {
        task: _known_values(trials, "repeated_calls", lambda record: record.repeated_calls)
        for task, trials in trials_by_task.items()
    }
    clusters = {task: trials[0].cluster for task, trials in trials_by_task.items()}
    return ArmFinding(
        arm=arm,
        flaky=tuple(task for task, trials in trials_by_task.items() if _is_flaky(trials)),
        alone=tuple(alone),
        false_success=_share(claimed, clusters, alpha),
        wasted_steps=_mean(wasted, clusters, alpha),
        repeated_calls=_mean(repeated, clusters, alpha),
    )


def _is_flaky(trials: Sequence[Record]) -> bool:
    return 0 < sum(record.is_solved for record in trials) < len(trials)


def _wasted(record: Record, cheapest: int | None) -> float | None:
    """Return the steps beyond the cheapest; None where they are not known. A trial that gave up before has wasted none."""
    return None if cheapest is None or "steps" in record.unknown else float(max(record.steps - cheapest, 0))


def _known_values(trials: Sequence[Record], name: str, value: Callable[[Record], float | None]) -> list[float]:
    values = (value(record) for record in trials if name not in record.unknown)
    return [each for each in values if each is not None]


def _share(values: Mapping[str, Sequence[float]], clusters: Mapping[str, str], alpha: float) -> Interval | None:
    scored_values = {task: each for task, each in values.items() if each}
    return (
        accuracy_interval(list(scored_values.values()), [clusters[task] for task in scored_values], alpha)
        if scored_values
        else None
    )


def _mean(values: Mapping[str, Sequence[float]], clusters: Mapping[str, str], alpha: float) -> Interval | None:
    means = {task: sum(each) / len(each) for task, each in values.items() if each}
    return mean_interval(list(means.values()), [clusters[task] for task in means], alpha) if means else None
