"""A prediction held against the results of the held-out tasks: per loop, and in the order of the loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from whichloop.experiments.fit_profile.check import compare_records
from whichloop.metrics.bootstrap import bca, unit_sums
from whichloop.metrics.paired import PairedFlip, judge_family
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, Floats, Interval, interval_json, unit_count
from whichloop.metrics.summary import summarize, task_values
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import each_record

from .prediction import Predicted

DIGITS = 12
"""Decimals beyond which two means are equal."""
MEASURES: Mapping[str, Callable[[Record], float]] = {
    "accuracy": lambda record: record.accuracy,
    "steps": lambda record: record.steps,
    "errors": lambda record: sum(record.errors.values()),
}
"""What a trial is compared in: the primary score, replies to deciding requests, and errors of any kind."""


def units_needed(tests: int, alpha: float = ALPHA) -> int:
    """Return the fewest independent tasks with which one of so many sign-flip tests, decided together, can reject at all.

    The smallest p of such a test is 2/2ⁿ for n units, and Holm (1979) holds the smallest of all against alpha / tests.
    """
    return math.floor(math.log2(2 * tests / alpha)) + 1


def verdict_of(found: Mapping[str, Any]) -> str:
    """Return the worst there is to say of a validation: Poor, Weak, Order right, level wrong, or Good."""
    if any(pair["misplaced"] for pair in found["pairs"]):
        return "Poor"
    if not found["pairs"] or found["tau"] is None or found["tau"]["low"] <= 0:
        return "Weak"
    off = any(gap["off"] for gap in found["differences"] if gap["measure"] == "accuracy")
    return "Order right, level wrong" if off else "Good"


def validity(folder: Path, predicted: Predicted) -> dict[str, Any]:
    """Read the results of the held-out tasks, and hold the prediction against them. Raises RunError where no task is in both.

    Returns plain JSON, of which `validity_doc` makes a document; `differences` are run minus tunnel, of each loop and measure, all
    of them one family; `pairs` those that the run tells apart, misplaced where the tunnel has them equal or in the other order.
    """
    arms, held_out = predicted.arms, frozenset(predicted.prediction["held_out"])
    real = [record for record in each_record(folder) if record.task in held_out and record.arm in arms]
    shared = _scored_everywhere(real, arms) & _scored_everywhere(predicted.records, arms.values())
    real = [record for record in real if record.task in shared]
    tunnel = [record for record in predicted.records if record.task in shared]
    if not shared:
        raise RunError(f"{folder}: no held-out task was scored for every loop, in the run and in the tunnel")

    def accuracy(records: Sequence[Record], arm: str) -> dict[str, Any] | None:
        return interval_json(summarize([record for record in records if record.arm == arm]).accuracy)

    clusters, rights = _accuracies(real, arms)
    _, predicted_rights = _accuracies(tunnel, arms.values())
    in_the_tunnel = {kind for record in tunnel for kind in record.errors}
    errors = sum((Counter(record.errors) for record in real), Counter[str]())
    pairs_in_all = len(arms) * (len(arms) - 1) // 2
    found = {
        "prediction": predicted.prediction["digest"],
        "fitted_tasks": len(predicted.prediction["fitted"]),
        "held_out_tasks": len(shared),
        "held_out_units": unit_count(clusters),
        "units_needed": units_needed(pairs_in_all),
        "loops": [{"arm": arm, "real": accuracy(real, arm), "predicted": accuracy(tunnel, name)} for arm, name in arms.items()],
        "differences": [gap.as_dict() for gap in compare_records(arms, real, tunnel, measures=MEASURES)],
        "tau": interval_json(rank_agreement(rights, predicted_rights, clusters)),
        "pairs": _told_apart(list(arms), rights, predicted_rights, clusters),
        "pairs_in_all": pairs_in_all,
        "unknown_errors": {kind: errors[kind] for kind in sorted(errors.keys() - in_the_tunnel)},
        "alpha": ALPHA,
    }
    return {"verdict": verdict_of(found), **found}


def _scored_everywhere(records: Sequence[Record], arms: Iterable[str]) -> set[str]:
    scored_tasks = {arm: {record.task for record in records if record.arm == arm and record.status == "scored"} for arm in arms}
    return set.intersection(*scored_tasks.values())


def _accuracies(records: Sequence[Record], arms: Iterable[str]) -> tuple[list[str], Floats]:
    """Return the clusters of the tasks, and the mean accuracies, [arm, task]; tasks in the order of their names."""
    values = [task_values([record for record in records if record.arm == arm], MEASURES["accuracy"]) for arm in arms]
    tasks = sorted(values[0].means)
    return [values[0].clusters[task] for task in tasks], np.array([[each.means[task] for task in tasks] for each in values])


def rank_agreement(real: Floats, predicted: Floats, clusters: Sequence[str]) -> Interval | None:
    """Return Kendall's tau-b (1945) between the mean scores of loops on two sides, with a BCa bootstrap over tasks.

    `real`, `predicted`: [loop, task]. tau-b is the sum of sign·sign over all pairs of loops, divided by √(pairs untied in one ×
    pairs untied in the other). None where all loops of one side are equal.
    """
    parts = unit_sums(np.vstack((real, predicted)).T, list(clusters))
    places = np.array(list(combinations(range(len(real)), 2)))

    def statistic(sums: Floats) -> Floats:
        totals = np.hsplit(np.round(sums, DIGITS), 2)
        ours, theirs = (np.sign(side[:, places[:, 0]] - side[:, places[:, 1]]) for side in totals)
        untied = np.sqrt(np.abs(ours).sum(1) * np.abs(theirs).sum(1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((ours * theirs).sum(1) / untied, dtype=np.float64)

    whole = float(statistic(parts.sum(0, keepdims=True))[0])
    if np.isnan(whole):
        return None
    low, high = bca(statistic, parts, ALPHA)
    return Interval(whole, min(low, whole), max(high, whole), real.shape[1])


def _told_apart(names: Sequence[str], real: Floats, predicted: Floats, clusters: Sequence[str]) -> list[dict[str, Any]]:
    """Return the pairs whose real accuracies differ, decided together (Holm 1979), the better loop first. Arrays: [loop, task]."""
    pairs = list(combinations(range(len(names)), 2))
    flips = [PairedFlip(real[a] - real[b], clusters) for a, b in pairs]
    pairs_apart: list[dict[str, Any]] = []
    for (a, b), decided in zip(pairs, judge_family([(flip, 0.0) for flip in flips], ALPHA), strict=True):
        if decided.p_holm < ALPHA:
            gap = decided.difference
            if gap.value < 0:
                a, b, gap = b, a, gap.turned
            tunnel = float(predicted[a].mean() - predicted[b].mean())
            misplaced = round(tunnel, DIGITS) <= 0
            ends = {"better": names[a], "worse": names[b], "real": gap.as_dict()}
            pairs_apart.append({**ends, "predicted": tunnel, "misplaced": misplaced})
    return pairs_apart
