"""Loops over all fault profiles of a run together: each task counts with its mean over the profiles, every profile alike.

It answers another question than the pairs under each profile do: which loop is better under these profiles on average, and not
which one is better under each. A task is the unit as ever, so that profiles add no tasks: what they add is that a loop which is a
little better under each of several profiles is told apart from another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from .arm_info import ArmInfo
from .summary import TaskValues

Loops = tuple[str, str]
"""Two loops, by their arms' names without the profile."""


def pooled_values(scores: Mapping[str, TaskValues], arms: Sequence[ArmInfo]) -> list[tuple[Loops, tuple[TaskValues, TaskValues]]]:
    """Return the pairs of loops that met every profile of a suite, each with its tasks' means over the profiles.

    `scores`: arm → its values. Nothing for a suite with a single profile, whose pairs say the same. Only tasks that are known under
    every profile count.
    """
    pairs = []
    for suite in dict.fromkeys(info.suite for info in arms):
        of_suite = [info for info in arms if info.suite == suite]
        profiles = {info.profile for info in of_suite}
        if len(profiles) < 2:
            continue
        by_loop: dict[str, list[ArmInfo]] = {}
        for info in of_suite:
            by_loop.setdefault(info.without_profile, []).append(info)
        pooled = {
            loop: mean_over_profiles([scores[info.arm] for info in infos])
            for loop, infos in by_loop.items()
            if {info.profile for info in infos} == profiles
        }
        pairs += [((a, b), (pooled[a], pooled[b])) for a, b in combinations(pooled, 2)]
    return pairs


def mean_over_profiles(values: Sequence[TaskValues]) -> TaskValues:
    """Return one value per task, the mean of its means under each profile; without tasks that are unknown under any."""
    first = values[0]
    means = [of_profile.means for of_profile in values]
    tasks = [task for task in first.values if all(task in task_means for task_means in means)]
    pooled = {task: [math.fsum(task_means[task] for task_means in means) / len(means)] for task in tasks}
    return TaskValues(pooled, first.clusters, first.templates)
