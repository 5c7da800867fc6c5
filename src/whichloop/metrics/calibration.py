"""Whether a loop knows when it is right: the confidence that it reports, against what it solved.

A trial is right where its score is 1. Only scored trials that report a confidence in [0, 1] count, rounded to three digits;
intervals draw whole tasks, or clusters of them (BCa at the expanded level). Two numbers have none: the calibration error is biased
upwards, and drawing from the trials again biases it once more; the area under the risk-coverage curve hangs on the few wrong
trials of high confidence, and its intervals hold too rarely (0.85 instead of 0.95 where one trial in ten is wrong).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from .bootstrap import bca, expanded
from .record import Record
from .statistics import ALPHA, Floats, Interval, Plain, unit_groups

BINS = 10
DRAWS = 999
MIN = 10
"""Units with a right trial, and with a wrong one, that a ranking by confidence is judged by."""
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Calibration(Plain):
    """One arm's confidence."""

    arm: str
    scored: int
    """Trials."""
    reported: int
    """Scored trials that report a confidence."""
    brier: Interval
    """Mean squared distance of confidence and outcome: 0 is best, always saying 0.5 gives 0.25."""
    ece: float
    """Expected calibration error over 10 bins of equal width: 0 is best."""
    auroc: Interval | None
    """Chance that a right trial reports more confidence than a wrong one, ties half; None where fewer than 10 units of inference
    hold a right trial, or a wrong one: nothing holds of so few."""
    aurc: float
    """Area under the risk-coverage curve: 0 is best, the share of wrong trials where confidence says nothing."""


def calibration(arm: str, records: Sequence[Record], alpha: float = ALPHA) -> Calibration | None:
    """Return the calibration of one arm's records; None if no scored trial reports a confidence."""
    scored = [record for record in records if record.status == "scored"]
    with_confidence = [record for record in scored if record.confidence is not None and 0 <= record.confidence <= 1]
    if not with_confidence:
        return None
    tasks = {record.task: record.cluster for record in with_confidence}
    groups = unit_groups(list(tasks.values()), len(tasks))
    unit_of = dict(zip(tasks, range(len(tasks)) if groups is None else groups.tolist(), strict=True))
    bars = histogram(
        [record.confidence or 0.0 for record in with_confidence],
        [record.is_solved for record in with_confidence],
        [unit_of[record.task] for record in with_confidence],
    )
    whole = Histogram(bars.levels, *(side.sum(0, keepdims=True) for side in (bars.right, bars.wrong)))

    def of_sums(measure: Measure, sums: Floats) -> Floats:
        return measure(Histogram(bars.levels, *np.hsplit(sums, 2)))

    def interval(measure: Measure) -> Interval:
        value, parts = float(measure(whole)[0]), np.hstack((bars.right, bars.wrong))
        low, high = bca(partial(of_sums, measure), parts, expanded(alpha, len(parts)), draws=DRAWS)
        return Interval(value, min(low, value), max(high, value), len(tasks))

    return Calibration(
        arm=arm,
        scored=len(scored),
        reported=len(with_confidence),
        brier=interval(brier),
        ece=calibration_error(whole),
        auroc=interval(auroc) if min(bars.right.any(-1).sum(), bars.wrong.any(-1).sum()) >= MIN else None,
        aurc=aurc(whole),
    )


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many trials reported which confidence, by unit of inference, by draw, or of all."""

    levels: Floats
    """Distinct confidences, ascending."""
    right: Floats
    """[unit, level]"""
    wrong: Floats
    """[unit, level]"""


Measure = Callable[[Histogram], Floats]
"""One value per row."""


def histogram(confidence: Sequence[float], right: Sequence[bool], units: Sequence[int]) -> Histogram:
    """Return what trials tell: the confidence of each, whether it was right, and its unit's number from 0."""
    rounded = np.round(np.array(confidence, dtype=np.float64), _DIGITS)
    values, places = np.unique(rounded, return_inverse=True)
    counts: Floats = np.zeros((2, int(np.max(units)) + 1, len(values)))
    np.add.at(counts, (np.asarray(right, dtype=np.int64), np.asarray(units), places), 1.0)
    return Histogram(np.asarray(values, dtype=np.float64), counts[1], counts[0])


def brier(histogram: Histogram) -> Floats:
    """Return the mean of (confidence - outcome)² (Brier 1950)."""
    squares = histogram.right @ (1 - histogram.levels) ** 2 + histogram.wrong @ histogram.levels**2
    return np.asarray(squares / (histogram.right + histogram.wrong).sum(-1), dtype=np.float64)


def auroc(histogram: Histogram) -> Floats:
    """Return the Mann-Whitney statistic over the number of pairs, where a tie counts half (Hanley & McNeil 1982); NaN without a
    right or a wrong one."""
    right, wrong = histogram.right, histogram.wrong
    above = right * (np.cumsum(wrong, -1) - wrong / 2)
    with np.errstate(invalid="ignore"):
        return np.asarray(above.sum(-1) / (right.sum(-1) * wrong.sum(-1)), dtype=np.float64)


def aurc(histogram: Histogram) -> float:
    """Return the mean over k of the risk of the k most confident trials (Geifman & El-Yaniv 2017), with ties in random order.

    Of the first row. Within a level of m trials, e of them wrong, after K trials with E wrong ones, the risks sum to
    Σ_j (E + j·e/m)/(K + j), which is e + (E - K·e/m)(H(K+m) - H(K)) with the harmonic numbers H.
    """
    wrong = histogram.wrong[0, ::-1]
    trials = wrong + histogram.right[0, ::-1]
    ends, wrong_before = np.cumsum(trials), np.cumsum(wrong) - wrong
    sums = scipy.special.digamma(ends + 1) - scipy.special.digamma(ends - trials + 1)
    share = wrong / np.maximum(trials, 1.0)
    return float((wrong + (wrong_before - (ends - trials) * share) * sums).sum() / ends[-1])


def calibration_error(histogram: Histogram) -> float:
    """Return Σ over bins of equal width of their share of trials x |accuracy - mean confidence| (Naeini 2015, Guo 2017).

    Of the first row; the bins are [0, 0.1), …, [0.9, 1].
    """
    right, total = histogram.right[0], histogram.right[0] + histogram.wrong[0]
    # tenths are exact here, since levels have three digits
    places = np.minimum(np.round(histogram.levels * 10**_DIGITS).astype(np.int64) // (10**_DIGITS // BINS), BINS - 1)
    sums = (np.bincount(places, each, BINS).tolist() for each in (total, total * histogram.levels, right))
    gaps = [(n, abs(correct / n - confidence / n)) for n, confidence, correct in zip(*sums, strict=True) if n]
    return float(sum(n * gap for n, gap in gaps) / sum(n for n, _ in gaps))
