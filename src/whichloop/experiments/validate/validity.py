"""A prediction held against the results of the held-out tasks: per loop, and in the order of the loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from whichloop.experiments.fit_profile.check import compare_records
from whichloop.metrics.bootstrap import bca, unit_sums
from whichloop.metrics.paired import PairedFlip, judge_family
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, Floats, Interval, unit_count
from whichloop.metrics.summary import summarize, task_values
from whichloop.runs.store.each_record import each_record
from whichloop.runs.store.files import RunError

from .outcome import DIGITS, LoopValidity, PairOrder, Validity
from .prediction import Predicted

MEASURES: Mapping[str, Callable[[Record], float]] = {
    "accuracy": lambda record: record.accuracy,
    "steps": lambda record: record.steps,
    "errors": lambda record: sum(record.errors.values()),
}
"""What a trial is compared in: the primary score, replies to deciding requests, and errors of any kind."""


def validity(folder: Path, predicted: Predicted, alpha: float = ALPHA) -> Validity:
    """Read the results of the held-out tasks, and hold the prediction against them. Raises RunError where no task is in both."""
    arms, held_out = predicted.arms, frozenset(predicted.prediction.held_out)
    real = [record for record in each_record(folder) if record.task in held_out and record.arm in arms]
    shared = _scored_everywhere(real, arms) & _scored_everywhere(predicted.records, arms.values())
    real = [record for record in real if record.task in shared]
    tunnel = [record for record in predicted.records if record.task in shared]
    if not shared:
        raise RunError(f"{folder}: no held-out task was scored for every loop, in the run and in the tunnel")
    sides = _Sides(arms, real, tunnel)
    return Validity(
        digest=predicted.prediction.digest,
        fitted_tasks=len(predicted.prediction.fitted),
        held_out_tasks=len(shared),
        units=unit_count(sides.clusters),
        loops=tuple(_loop(arm, sides) for arm in arms),
        gaps=compare_records(arms, real, tunnel, alpha, MEASURES),
        tau=rank_agreement(sides.real, sides.predicted, sides.clusters, alpha),
        pairs=_told_apart(sides, alpha),
        pairs_in_all=len(arms) * (len(arms) - 1) // 2,
        unknown_errors=_unknown(real, tunnel),
        alpha=alpha,
    )


def _scored_everywhere(records: Sequence[Record], arms: Iterable[str]) -> set[str]:
    scored_tasks = {arm: {record.task for record in records if record.arm == arm and record.status == "scored"} for arm in arms}
    return set.intersection(*scored_tasks.values())


class _Sides:
    """The accuracies of all loops, task by task, in the run and in the tunnel."""

    def __init__(self, arms: Mapping[str, str], real: Sequence[Record], tunnel: Sequence[Record]) -> None:
        self.arms, self.records = arms, {"real": real, "tunnel": tunnel}
        values = {arm: task_values([record for record in real if record.arm == arm], MEASURES["accuracy"]) for arm in arms}
        others = [task_values([record for record in tunnel if record.arm == name], MEASURES["accuracy"]) for name in arms.values()]
        first = next(iter(values.values()))
        self.tasks = sorted(first.means)
        self.clusters = [first.clusters[task] for task in self.tasks]
        self.real: Floats = np.array([[measured.means[task] for task in self.tasks] for measured in values.values()])
        self.predicted: Floats = np.array([[measured.means[task] for task in self.tasks] for measured in others])
        """[loop, task]."""


def _loop(arm: str, sides: _Sides) -> LoopValidity:
    real = summarize([record for record in sides.records["real"] if record.arm == arm]).accuracy
    tunnel = summarize([record for record in sides.records["tunnel"] if record.arm == sides.arms[arm]]).accuracy
    assert real is not None
    assert tunnel is not None
    return LoopValidity(arm, real, tunnel)


def rank_agreement(real: Floats, predicted: Floats, clusters: Sequence[str], alpha: float = ALPHA) -> Interval | None:
    """Return Kendall's tau-b (1945) between the mean scores of loops on two sides, with a BCa bootstrap over tasks.

    `real`, `predicted`: [loop, task]. tau-b is the sum of sign·sign over all pairs of loops, divided by √(pairs untied in one ×
    pairs untied in the other). None where all loops of one side are equal.
    """
    one, two = (unit_sums(side.T, list(clusters)) for side in (real, predicted))
    places = np.array(list(combinations(range(len(real)), 2)))

    def signs(counts: Floats, sums: Floats) -> Floats:
        totals = np.round(counts @ sums, DIGITS)
        return np.asarray(np.sign(totals[:, places[:, 0]] - totals[:, places[:, 1]]), dtype=np.float64)

    def statistic(counts: Floats) -> Floats:
        ours, theirs = signs(counts, one), signs(counts, two)
        untied = np.sqrt(np.abs(ours).sum(1) * np.abs(theirs).sum(1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((ours * theirs).sum(1) / untied, dtype=np.float64)

    whole = float(statistic(np.ones((1, len(one))))[0])
    if np.isnan(whole):
        return None
    low, high = bca(statistic, len(one), alpha)
    return Interval(whole, min(low, whole), max(high, whole), real.shape[1])


def _told_apart(sides: _Sides, alpha: float) -> tuple[PairOrder, ...]:
    """Return the pairs whose real accuracies differ, decided together (Holm 1979), the better loop first."""
    names = list(sides.arms)
    pairs = list(combinations(range(len(names)), 2))
    flips = [PairedFlip(sides.real[a] - sides.real[b], sides.clusters) for a, b in pairs]
    pairs_apart = []
    for (a, b), decided in zip(pairs, judge_family([(flip, 0.0) for flip in flips], alpha), strict=True):
        if decided.p_holm < alpha:
            gap = decided.difference
            if gap.value < 0:
                a, b, gap = b, a, gap.turned
            predicted = float(sides.predicted[a].mean() - sides.predicted[b].mean())
            pairs_apart.append(PairOrder(names[a], names[b], gap, predicted))
    return tuple(pairs_apart)


def _unknown(real: Sequence[Record], tunnel: Sequence[Record]) -> dict[str, int]:
    counts, tunnel_kinds = Counter[str](), {kind for record in tunnel for kind in record.errors}
    for record in real:
        counts.update(record.errors)
    return {kind: count for kind, count in sorted(counts.items()) if kind not in tunnel_kinds}
