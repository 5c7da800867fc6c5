"""How a loop fares when it tries the same task again: pass@k, pass^k, consistency, and where its variance comes from.

A trial is solved where its score is 1. Tasks with at least two scored repeats count; K is the fewest of these, so that every k up
to K is known of every task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .record import Record
from .statistics import ALPHA, Clusters, Interval, accuracy_interval
from .summary import task_values


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """What makes scores of one arm vary."""

    between: float
    """Variance of the tasks' true means: they differ in difficulty."""
    within: float
    """Mean variance of the repeats of a task: chance."""


@dataclass(frozen=True, slots=True)
class Reliability:
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

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `pass_at` and `pass_hat` in the order of k from 1."""
        return {
            "arm": self.arm,
            "tasks": self.tasks,
            "repeats": self.repeats,
            "pass_at": [interval.as_dict() for interval in self.pass_at],
            "pass_hat": [interval.as_dict() for interval in self.pass_hat],
            "consistency": self.consistency.as_dict(),
            "variance": None if self.variance is None else asdict(self.variance),
        }


def reliability(arm: str, records: Sequence[Record], alpha: float = ALPHA) -> Reliability | None:
    """Return the reliability of one arm's records; None if no task was scored twice."""
    task_outcomes = task_values(records, lambda record: float(record.is_solved))
    repeated = {task: values for task, values in task_outcomes.values.items() if len(values) > 1}
    if not repeated:
        return None
    clusters = [task_outcomes.clusters[task] for task in repeated]
    outcomes = list(repeated.values())
    counts = [(len(values), round(sum(values))) for values in outcomes]
    fewest = min(n for n, _ in counts)
    single = accuracy_interval(outcomes, clusters, alpha)
    _, *more = chances_up_to(fewest, counts)
    return Reliability(
        arm,
        len(outcomes),
        fewest,
        (single, *(_mean(at_least_one, clusters, alpha) for at_least_one, _ in more)),
        (single, *(_mean(all_of_them, clusters, alpha) for _, all_of_them in more)),
        consistency_interval(counts, clusters, alpha),
        variance_split(outcomes),
    )


def consistency(n: int, c: int) -> float:
    """Return (2p - 1)² of one task, unbiased: 1 - 4n/(n-1)·p̂(1-p̂) from c successes in n (Rabanser et al. 2026, arXiv:2602.16666).

    Raises ValueError for less than two trials.
    """
    if n < 2:
        raise ValueError("consistency takes two trials of a task")
    return 1.0 - 4 * c * (n - c) / (n * (n - 1))


def consistency_interval(counts: Sequence[tuple[int, int]], clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Return the mean over tasks of `consistency` from their (n, c); never of zero width.

    It lies in [-1, 1], so that half of it and one half is a score, with a score's interval.
    """
    scores = [(1 + consistency(n, c)) / 2 for n, c in counts]
    interval = _mean(scores, clusters, alpha)
    return Interval(2 * interval.value - 1, 2 * interval.low - 1, 2 * interval.high - 1, interval.n, interval.units)


def _mean(scores: Sequence[float], clusters: Clusters, alpha: float) -> Interval:
    return accuracy_interval([[score] for score in scores], clusters, alpha)


# --- estimates ---


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the chance that at least one of k trials succeeds, unbiased, from c successes in n (Chen et al. 2021,
    arXiv:2107.03374)."""
    _check_k(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the chance that all of k trials succeed, unbiased, from c successes in n (Yao et al. 2024, arXiv:2406.12045)."""
    _check_k(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def chances_up_to(most: int, counts: Sequence[tuple[int, int]]) -> Iterator[tuple[list[float], list[float]]]:
    """Yield `pass_at_k` and `pass_hat_k` of each (n, c) for k = 1..most, each in the time that one division takes.

    Drawn without replacement, the k-th try is one of n - k + 1. `most` is at most the fewest n.
    """
    tries, solved = (np.array(column, dtype=np.float64) for column in zip(*counts, strict=True))
    none_solved, all_solved = np.ones(len(tries)), np.ones(len(tries))
    for drawn in range(most):
        none_solved *= np.maximum(tries - solved - drawn, 0) / (tries - drawn)
        all_solved *= np.maximum(solved - drawn, 0) / (tries - drawn)
        yield (1 - none_solved).tolist(), all_solved.tolist()


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


def _check_k(n: int, c: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"k = {k} of n = {n} trials with c = {c} successes")
