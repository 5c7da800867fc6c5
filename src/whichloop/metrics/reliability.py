"""How a loop fares when it tries the same task again: pass@k, pass^k, consistency, and where its variance comes from.

A trial is solved where its score is 1. Tasks with at least two scored repeats count; K is the fewest of these, so that every k up
to K is known of every task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .record import Record
from .statistics import ALPHA, Floats, Interval, Plain, accuracy_interval
from .summary import task_values


@dataclass(frozen=True, slots=True)
class VarianceSplit(Plain):
    """What makes scores of one arm vary."""

    between: float
    """Variance of the tasks' true means: they differ in difficulty."""
    within: float
    """Mean variance of the repeats of a task: chance."""


@dataclass(frozen=True, slots=True)
class Reliability(Plain):
    """One arm over its repeats."""

    arm: str
    tasks: int
    repeats: int
    """K: the fewest scored repeats of a task that has two or more; beyond it pass@k would not be known of every task."""
    pass_at: tuple[Interval, ...]
    """pass@k for k = 1..K: at least one of k tries solves the task."""
    pass_hat: tuple[Interval, ...]
    """pass^k for k = 1..K: all of k tries solve it."""
    consistency: Interval
    """1: a task is always solved or never, as far as is known; 0: every try is the toss of a coin; less by chance only."""
    variance: VarianceSplit | None
    """None for a single task."""


def reliability(arm: str, records: Sequence[Record], alpha: float = ALPHA) -> Reliability | None:
    """Return the reliability of one arm's records; None if no task was scored twice."""
    outcomes = task_values(records, lambda record: float(record.is_solved))
    repeated = {task: values for task, values in outcomes.values.items() if len(values) > 1}
    if not repeated:
        return None
    clusters = [outcomes.clusters[task] for task in repeated]
    tries, solved = np.array([(len(values), sum(values)) for values in repeated.values()], dtype=np.float64).T

    def mean(scores: Floats) -> Interval:
        return accuracy_interval(scores[:, None].tolist(), clusters, alpha)

    single = accuracy_interval(list(repeated.values()), clusters, alpha)
    (_, *none_solved), (_, *all_solved) = chances(tries, tries - solved), chances(tries, solved)
    half = mean((1 + consistency(tries, solved)) / 2)  # within [0, 1], as a score is
    return Reliability(
        arm,
        len(repeated),
        int(tries.min()),
        (single, *(mean(1 - chance) for chance in none_solved)),
        (single, *map(mean, all_solved)),
        Interval(2 * half.value - 1, 2 * half.low - 1, 2 * half.high - 1, half.n, half.units),
        variance_split(list(repeated.values())),
    )


def consistency(tries: Floats, solved: Floats) -> Floats:
    """Return (2p - 1)² of each task, unbiased: 1 - 4n/(n-1)·p̂(1-p̂) from c successes in n > 1 (Rabanser et al. 2026,
    arXiv:2602.16666)."""
    return 1.0 - 4 * solved * (tries - solved) / (tries * (tries - 1))


def chances(tries: Floats, kind: Floats) -> Floats:
    """Return the chance that all of k tries are of one kind, `[k - 1, task]` for k = 1..K, the fewest tries of a task.

    Unbiased, from `kind[task]` such tries of `tries[task]`: of the solved ones pass^k (Yao et al. 2024, arXiv:2406.12045), of the
    others 1 - pass@k (Chen et al. 2021, arXiv:2107.03374). Drawn without replacement, the k-th try is one of n - k + 1.
    """
    drawn = np.arange(tries.min())[:, None]
    return np.asarray(np.cumprod(np.maximum(kind - drawn, 0) / (tries - drawn), axis=0), dtype=np.float64)


def variance_split(scores: Sequence[Sequence[float]]) -> VarianceSplit | None:
    """Split the variance of `scores[task][repeat]` (Miller 2024, arXiv:2411.00640, §3); None without two tasks that are repeated.

    Within: σ̂²_t = K/(K-1)·p̂_t(1-p̂_t) for 0/1 scores, the sample variance in general, averaged over the tasks that are repeated.
    Between: Var(p̂_t) less the mean of σ̂²_t/K, of the same tasks; cut at 0.
    """
    repeated = [np.asarray(task, dtype=np.float64) for task in scores if len(task) > 1]
    if len(repeated) < 2:
        return None
    variances = [float(np.var(task, ddof=1)) for task in repeated]
    chance = [variance / len(task) for variance, task in zip(variances, repeated, strict=True)]
    between = float(np.var([task.mean() for task in repeated], ddof=1)) - math.fsum(chance) / len(chance)
    return VarianceSplit(max(between, 0.0), math.fsum(variances) / len(variances))
