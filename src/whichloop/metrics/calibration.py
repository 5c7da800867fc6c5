"""Whether a loop knows when it is right: the confidence that it reports, against what it solved.

A trial is right where its score is 1. Only scored trials that report a confidence in [0, 1] count, rounded to three digits;
intervals draw whole tasks, or clusters of them (BCa at the expanded level). Two numbers have none: the calibration error is biased
upwards, and drawing from the trials again biases it once more; the area under the risk-coverage curve hangs on the few wrong
trials of high confidence, and its intervals hold too rarely (0.85 instead of 0.95 where one trial in ten is wrong).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bca, expanded
from .record import Record
from .record_table import alike
from .statistics import ALPHA, Floats, Interval, interval_json, unit_groups

BINS = 10
DRAWS = 999
MIN = 10
"""Units with a right trial, and with a wrong one, that a ranking by confidence is judged by."""
MAX_POINTS = 50
"""Points of a risk-coverage curve."""
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Bin:
    """Trials of about the same confidence."""

    low: float
    high: float
    trials: int
    confidence: float
    """Mean."""
    accuracy: float
    """Share that was right."""


@dataclass(frozen=True, slots=True)
class Calibration:
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
    bins: tuple[Bin, ...]
    """Those that hold a trial."""
    risk_coverage: tuple[tuple[float, float], ...]
    """(coverage, risk): the share of trials that is kept, the most confident first, and how many of these are wrong."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "scored": self.scored,
            "reported": self.reported,
            "brier": self.brier.as_dict(),
            "ece": self.ece,
            "auroc": interval_json(self.auroc),
            "aurc": self.aurc,
            "bins": [asdict(bin_) for bin_ in self.bins],
            "risk_coverage": [list(point) for point in self.risk_coverage],
        }


def calibration(arm: str, records: Sequence[Record], alpha: float = ALPHA) -> Calibration | None:
    """Return the calibration of one arm's records; None if no scored trial reports a confidence."""
    scored = [record for record in alike(records) if record.status == "scored"]
    with_confidence = [record for record in scored if record.confidence is not None and 0 <= record.confidence <= 1]
    if not with_confidence:
        return None
    tasks = {record.task: record.cluster for record in with_confidence}
    bars = histogram(
        [record.confidence or 0.0 for record in with_confidence],
        [record.is_solved for record in with_confidence],
        _units(with_confidence, tasks),
    )

    def interval(measure: Measure) -> Interval:
        def statistic(counts: Floats) -> Floats:
            return measure(bars.drawn(counts))

        value = float(measure(bars.whole)[0])
        units = len(bars.right)
        low, high = bca(statistic, units, expanded(alpha, units), draws=DRAWS, left_out=lambda: measure(bars.without_each))
        return Interval(value, min(low, value), max(high, value), len(tasks))

    right, wrong = bars.whole.right[0], bars.whole.wrong[0]
    ranks = min(int(bars.right.any(-1).sum()), int(bars.wrong.any(-1).sum())) >= MIN
    return Calibration(
        arm=arm,
        scored=len(scored),
        reported=len(with_confidence),
        brier=interval(brier),
        ece=float(calibration_error(bars.whole)[0]),
        auroc=interval(auroc) if ranks else None,
        aurc=float(aurc(bars.whole)[0]),
        bins=tuple(bins(bars.whole)),
        risk_coverage=tuple(risk_coverage(right, wrong)),
    )


def _units(records: Sequence[Record], tasks: Mapping[str, str]) -> NDArray[np.int64]:
    """Return the number, from 0, of each record's unit of inference. `tasks`: task → cluster."""
    groups = unit_groups(list(tasks.values()), len(tasks))
    numbers = {task: place if groups is None else int(groups[place]) for place, task in enumerate(tasks)}
    return np.array([numbers[record.task] for record in records])


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many trials reported which confidence, by unit of inference or by draw."""

    levels: Floats
    """Distinct confidences, ascending."""
    right: Floats
    """[unit, level]"""
    wrong: Floats
    """[unit, level]"""

    @property
    def whole(self) -> Histogram:
        """All units in one."""
        return self.drawn(np.ones((1, len(self.right))))

    @property
    def without_each(self) -> Histogram:
        """One row per unit, of all others."""
        whole = self.whole
        return Histogram(self.levels, whole.right - self.right, whole.wrong - self.wrong)

    def drawn(self, counts: Floats) -> Histogram:
        """Return one row per draw, from counts[draw, unit]."""
        return Histogram(self.levels, counts @ self.right, counts @ self.wrong)


Measure = Callable[[Histogram], Floats]
"""One value per row."""


def histogram(confidence: Sequence[float], right: Sequence[bool], units: Sequence[int] | NDArray[np.int64]) -> Histogram:
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


def calibration_error(histogram: Histogram) -> Floats:
    """Return Σ over `BINS` bins of equal width of their share of trials x |accuracy - mean confidence| (Naeini 2015, Guo 2017)."""
    total = histogram.right + histogram.wrong
    places = _bins_of(histogram.levels)
    gaps = [np.abs((histogram.right - total * histogram.levels)[:, places == place].sum(-1)) for place in range(BINS)]
    return np.asarray(np.sum(gaps, axis=0) / total.sum(-1), dtype=np.float64)


def auroc(histogram: Histogram) -> Floats:
    """Return the Mann-Whitney statistic over the number of pairs, where a tie counts half (Hanley & McNeil 1982); NaN without a
    right or a wrong one."""
    right, wrong = histogram.right, histogram.wrong
    above = right * (np.cumsum(wrong, -1) - wrong / 2)
    with np.errstate(invalid="ignore"):
        return np.asarray(above.sum(-1) / (right.sum(-1) * wrong.sum(-1)), dtype=np.float64)


def aurc(histogram: Histogram) -> Floats:
    """Return the mean over k of the risk of the k most confident trials (Geifman & El-Yaniv 2017), with ties in random order.

    Within a level of m trials, e of them wrong, after K trials with E wrong ones, the risks sum to Σ_j (E + j·e/m)/(K + j),
    which is e + (E - K·e/m)(H(K+m) - H(K)) with the harmonic numbers H.
    """
    wrong = histogram.wrong[:, ::-1]
    trials = wrong + histogram.right[:, ::-1]
    before, wrong_before = np.cumsum(trials, -1) - trials, np.cumsum(wrong, -1) - wrong
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, trials.sum(-1).max() + 1))))
    sums = harmonic[(before + trials).astype(np.int64)] - harmonic[before.astype(np.int64)]
    share = wrong / np.maximum(trials, 1.0)
    return np.asarray((wrong + (wrong_before - before * share) * sums).sum(-1) / trials.sum(-1), dtype=np.float64)


def bins(histogram: Histogram) -> list[Bin]:
    """Return what a reliability diagram shows of the first row."""
    right, total, places = histogram.right[0], histogram.right[0] + histogram.wrong[0], _bins_of(histogram.levels)
    bins_made = []
    for place in range(BINS):
        inside = places == place
        trials = float(total[inside].sum())
        if trials:
            means = (float((total * histogram.levels)[inside].sum()) / trials, float(right[inside].sum()) / trials)
            bins_made.append(Bin(place / BINS, (place + 1) / BINS, round(trials), *means))
    return bins_made


def risk_coverage(right: Floats, wrong: Floats) -> list[tuple[float, float]]:
    """Return (coverage, risk) at each level of confidence from the highest down, at most `MAX_POINTS` of them; `right[level]`."""
    trials, errors = np.cumsum((right + wrong)[::-1]), np.cumsum(wrong[::-1])
    points = [(float(n / trials[-1]), float(e / n)) for n, e in zip(trials, errors, strict=True) if n]
    chosen = np.unique(np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).round().astype(int))
    return [points[place] for place in chosen]


def _bins_of(levels: Floats) -> NDArray[np.int64]:
    """Return the bin of each level: [0, 0.1), …, [0.9, 1]. Tenths are exact here, since levels have three digits."""
    places = np.round(levels * 10**_DIGITS).astype(np.int64) // (10**_DIGITS // BINS)
    return np.asarray(np.minimum(places, BINS - 1), dtype=np.int64)
