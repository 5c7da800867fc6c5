"""What each arm did on each of a few tasks: of so few that a table of them is read, and says more than a mean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from .record import Record
from .summary import METRICS, dollars_of_trial

MAX_FEW_TASKS = 8
"""Tasks up to which each is told by itself, and repeats are tested for what they show of these tasks alone."""


@dataclass(frozen=True, slots=True)
class OnTask:
    """The scored trials of one arm on one task."""

    arm: str
    task: str
    trials: int
    solved: float
    """Their scores together: of scores 0 and 1 the number of trials that were solved."""
    stops: Mapping[str, int]
    """Stop reason → trials."""
    cost_usd: float | None
    """Mean dollars of a trial, without luck with a cache; None where they are not known of each."""
    tokens: float | None
    """Mean tokens of a trial; None likewise."""


def on_few_tasks(by_arm: Mapping[str, Sequence[Record]]) -> tuple[OnTask, ...]:
    """Return what each arm did on each task, in the order of arms and tasks."""
    on_tasks = []
    for arm, records in by_arm.items():
        tasks: dict[str, list[Record]] = {}
        for record in records:
            if record.status == "scored":
                tasks.setdefault(record.task, []).append(record)
        on_tasks += [_on_task(arm, task, tasks[task]) for task in sorted(tasks)]
    return tuple(on_tasks)


def _on_task(arm: str, task: str, records: Sequence[Record]) -> OnTask:
    stops = Counter(record.stop for record in records if record.stop is not None)
    cost, tokens = _mean([dollars_of_trial(record) for record in records]), _mean([METRICS["tokens"](record) for record in records])
    return OnTask(arm, task, len(records), math.fsum(record.accuracy for record in records), stops, cost, tokens)


def _mean(values: Sequence[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return fmean(known_values) if known_values and len(known_values) == len(values) else None
