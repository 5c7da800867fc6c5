"""How many tasks a decision takes: power of the verdicts and of the gate, in closed form.

Everything is counted in units of inference: a task, or a cluster where tasks share one. `variance` is that of one unit's
difference (a's mean minus b's, or the run's minus the baseline's): between units, plus what repeats leave of the chance within a
task. Amounts are points of scores in [0, 1], where `scores` holds; else whatever the values are in, such as logarithms.

A larger run of the same seed repeats the trials that there were, and draws the added ones alone: `drawn` is their share of all,
1 for a fresh run. `difference` is then the mean over both, what was seen and what is supposed, and the drawn share alone varies.

Normal approximations throughout; `benchmarks/power_check.py` holds them against simulated runs that the real functions decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
import scipy

from .statistics import (
    ALPHA,
    NO_SPREAD,
    Floats,
    standard_error,
    student_quantile,
    unit_count,
    unit_groups,
    unit_values,
    z_quantile,
)
from .summary import TaskValues

POWER = 0.8
"""Chance of a decision that is planned for."""
MAX_UNITS = 10_000_000
"""A plan of more units is not a plan."""
PSEUDO_UNITS = 2
"""Units of +1 and of -1, the largest that the law of scores appends (Bonett & Price 2012)."""
UNSEEN = 3
"""Units that may be unusual, 95 % sure, where none of many was: the rule of three (Hanley & Lippman-Hand 1983)."""
DOUBLE = math.log(2) ** 2
"""Square of the difference that an amount twice as large makes, in logarithms."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How the difference of two arms varies, per unit; `spread` and `same_loop` estimate it."""

    tasks: int
    units: int
    repeats: int
    """Trials of one task in one arm, a median where tasks have unequal numbers."""
    difference: float
    """Mean over tasks, a minus b."""
    between: float
    """Variance of the units' true differences; where `within_known` does not hold, of the observed ones."""
    within_a: float
    """Variance that a single trial per task of arm a adds to a unit's difference."""
    within_b: float
    within_known: bool
    """Tasks ran more than once in both arms."""
    floor: float
    """What units that happened not to show up may bring: no less variance is planned with. 0 where more than UNSEEN were
    unusual, whose variance then tells."""
    scores: bool
    """The values lie in [0, 1]."""
    icc: float = 0.0
    """Correlation of differences within a cluster; 0 where tasks share none."""
    df: float = math.inf
    """Degrees of freedom of the variance: how sure it is; infinite where it is known."""
    unusual: int = 0
    """Units with a task whose difference is another than the median."""

    @property
    def is_clustered(self) -> bool:
        """Whether tasks share units."""
        return self.units < self.tasks

    @property
    def design_effect(self) -> float:
        """How many of these tasks count for as much as one independent task would: 1 + (m̄-1) ICC (Kish 1965)."""
        return 1 + (self.tasks / self.units - 1) * self.icc

    def variance(self, repeats: int, difference: float = 0.0) -> float:
        """Return the variance of one unit's difference at so many trials per task and arm.

        `difference`: a true one that is supposed; means of 0/1 scores differ by multiples of 1/repeats, so that no difference δ
        of a task comes with less than |δ|/repeats - δ², and none of a cluster with less than its number of tasks leaves of that.
        """
        least = (abs(difference) / repeats - difference**2) * self.units / self.tasks if self.scores else 0.0
        return max(self.between + (self.within_a + self.within_b) / repeats, self.floor, least)

    def plausible(self, variance: float) -> Floats:
        """Return variances that the true one may be where it was estimated as `variance`, all equally likely."""
        if math.isinf(self.df):
            return np.array([variance])
        return np.asarray(variance * self.df / scipy.special.chdtri(self.df, _TAILS), dtype=np.float64)

    def step(self, repeats: int) -> float:
        """Return half the distance between two sums of differences, where scores are 0 or 1; 0 otherwise."""
        return 1 / repeats if self.scores else 0.0


_TAILS = (np.arange(5) + 0.5) / 5


def difference_power(
    units: int, difference: float, variance: float, alpha: float = ALPHA, *, step: float = 0.0, drawn: float = 1.0
) -> float:
    """Return the chance that the two-sided sign-flip test shows a difference.

    Under random signs the sum of differences has the variance Σd², as in Connor's formula. `step`: `Spread.step`, the correction
    for continuity.
    """
    if units < _fewest_signs(alpha / 2):
        return 0.0
    size = abs(difference)
    reach = units * size - step - z_quantile(alpha / 2) * math.sqrt(units * (variance + size**2))
    return _below(0.0, -reach, math.sqrt(units * variance * drawn))


def equivalence_power(
    units: int, difference: float, variance: float, margin: float, alpha: float = ALPHA, *, scores: bool = True
) -> float:
    """Return the chance that both one-sided tests against the margin reject, which shows equivalence (Schuirmann 1987)."""
    center, deviation, half = _interval(units, abs(difference), variance, alpha, scores)
    limit = _passing(units, half, margin, alpha, scores)
    return max(0.0, _below(-limit, center, deviation) - _below(limit, center, deviation))


def pass_power(
    units: int,
    difference: float,
    variance: float,
    margin: float,
    alpha: float = ALPHA,
    *,
    scores: bool = True,
    drawn: float = 1.0,
) -> float:
    """Return the chance that the gate passes a true advantage: that its one-sided lower bound lies above -margin."""
    center, deviation, half = _interval(units, difference, variance, alpha, scores)
    return 1.0 - _below(_passing(units, half, margin, alpha, scores), center, math.sqrt(drawn) * deviation)


class Levels(NamedTuple):
    """Levels of a gate's one-sided tests: where many arms are gated, a regression is tested at a lower one."""

    regression: float = ALPHA
    passing: float = ALPHA


def regression_power(
    units: int,
    difference: float,
    variance: float,
    margin: float,
    levels: Levels = Levels(),  # noqa: B008  immutable
    *,
    scores: bool = True,
    step: float = 0.0,
) -> float:
    """Return the chance that the gate says regression of a true advantage (a drop is a negative one).

    It does so where the sign-flip test shows the run worse, and it does not pass.
    """
    fails = 1.0 - pass_power(units, difference, variance, margin, levels.passing, scores=scores)
    return min(fails, difference_power(units, min(difference, 0.0), variance, 2 * levels.regression, step=step))


def fewest_units(power_of: Callable[[int], float], power: float = POWER) -> int | None:
    """Return the fewest units, at least 2, with this power, which must grow with them; None where MAX_UNITS are too few."""
    high = 2
    while power_of(high) < power:
        if high == MAX_UNITS:
            return None
        high = min(2 * high, MAX_UNITS)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high


def smallest(power_of: Callable[[float], float], most: float, power: float = POWER) -> float | None:
    """Return the smallest difference, to 1/1000 of `most`, that is shown with this power; None where `most` is too small."""
    steps = 1_000
    low, high = 0, steps + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(most * middle / steps) >= power else (middle, high)
    return most * high / steps if high <= steps else None


def spread(a: TaskValues, b: TaskValues, *, scores: bool = True) -> Spread | None:
    """Return how the difference of two arms varies, over the tasks that both have; None for fewer than two units.

    A task's cluster is known if either arm names it: a baseline names none.
    Within a task: K/(K-1) p(1-p), in general the sample variance; between units: what that leaves of theirs (Miller 2024, §4).
    """
    means_a, means_b = a.means, b.means
    tasks = [task for task in means_a if task in means_b]
    named = {**b.clusters, **a.clusters}
    clusters = [named[task] for task in tasks]
    units = unit_count(clusters) if tasks else 0
    if units < 2:
        return None
    d = np.array([means_a[task] - means_b[task] for task in tasks])
    n, error = len(d), standard_error(d, clusters)
    groups, apart = unit_groups(clusters, n), np.abs(d - float(np.median(d))) > NO_SPREAD
    unusual = int(apart.sum() if groups is None else np.unique(groups[apart]).size)
    arms = [[arm.values[task] for task in tasks] for arm in (a, b)]
    within = [_within(values) for values in arms]
    are_repeats_known = None not in within
    # A unit's value is a mean over its tasks.
    within_a, within_b = (units / n * (variance or 0.0) if are_repeats_known else 0.0 for variance in within)
    chance = sum(
        variance * math.fsum(1 / len(one) for one in values) / n
        for variance, values in zip((within_a, within_b), arms, strict=True)
    )
    # How much larger the clustered error is than the independent one.
    alone = float(np.var(d)) / n
    icc = 0.0 if units == n or alone == 0 else (error**2 * (units - 1) / units / alone - 1) / (n / units - 1)
    return Spread(
        tasks=n,
        units=units,
        repeats=usual_repeats([len(values) for arm in arms for values in arm]),
        difference=math.fsum(d) / n,
        between=max(units * error**2 - chance, 0.0),
        within_a=within_a,
        within_b=within_b,
        within_known=are_repeats_known,
        floor=unseen(units, scores=scores) if unusual <= UNSEEN else 0.0,
        scores=scores,
        icc=icc,
        df=_degrees(unit_values(d, clusters)),
        unusual=unusual,
    )


def same_loop(values: TaskValues, *, scores: bool = True) -> Spread | None:
    """Return how one loop's runs with fresh seeds differ from each other: by what varies within tasks; None for fewer than two
    units.

    With one trial per task what varies within is not known, and taken to be all that varies: p(1-p) at most.
    """
    units = unit_count(list(values.clusters.values())) if values.values else 0
    if units < 2:
        return None
    tasks = list(values.values.values())
    variances = _within(tasks)
    per_trial = float(np.var(list(values.means.values()))) if variances is None else variances
    within = max(per_trial, unseen(len(tasks), scores=scores) / 2) * units / len(tasks)
    return Spread(
        tasks=len(tasks),
        units=units,
        repeats=usual_repeats([len(values) for values in tasks]),
        difference=0.0,
        between=0.0,
        within_a=within,
        within_b=within,
        within_known=variances is not None,
        floor=0.0,
        scores=scores,
        df=units - 1.0,
    )


def units_to_decide(varies: Spread, repeats: int, margin: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Return units with which a difference of the margin is shown, and equal arms are shown equivalent; None where none suffice.

    Power is that of a fresh run: its mean over the variances that the pilot leaves possible.
    """
    step, scores = varies.step(repeats), varies.scores
    supposed, equal = varies.plausible(varies.variance(repeats, margin)), varies.plausible(varies.variance(repeats))
    units_to_show = fewest_units(lambda n: fmean(difference_power(n, margin, float(v), alpha, step=step) for v in supposed), power)
    within = fewest_units(lambda n: fmean(equivalence_power(n, 0.0, float(v), margin, alpha, scores=scores) for v in equal), power)
    return None if units_to_show is None or within is None else max(units_to_show, within)


def units_to_pass(varies: Spread, repeats: int, margin: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Return units with which the gate passes a loop that does no harm, power as in `units_to_decide`; None where none suffice."""
    variances = varies.plausible(varies.variance(repeats))
    return fewest_units(
        lambda n: fmean(pass_power(n, 0.0, float(v), margin, alpha, scores=varies.scores) for v in variances), power
    )


def tasks_of(units: int, spread: Spread) -> int:
    """Return how many tasks make so many units, if each unit has as many tasks as it had in the pilot."""
    return math.ceil(units * spread.tasks / spread.units)


def unseen(n: int, *, scores: bool = True) -> float:
    """Return the variance that may have stayed unseen in n units, 95 % sure: `UNSEEN` of them differ by 1, or where amounts are
    logarithms, by a factor of two.
    """
    return min(UNSEEN / n, 1.0) * (1.0 if scores else DOUBLE)


def _degrees(units: Floats) -> float:
    """Return degrees of freedom of the units' variance, 2/(κ - 1) for each: it is less sure where few units differ much."""
    apart = (units - units.mean()) ** 2
    if not apart.any():
        return len(units) - 1.0
    kurtosis = float((apart**2).mean() / apart.mean() ** 2)
    return min(max(2 * len(units) / max(kurtosis - 1, 1e-9), 3.0), len(units) - 1.0) if len(units) > 3 else 1.0


def _within(tasks: Sequence[Sequence[float]]) -> float | None:
    """Return the mean variance of single trials around their task's mean; None where no task has two trials."""
    repeated = [float(np.var(values, ddof=1)) for values in tasks if len(values) > 1]
    return math.fsum(repeated) / len(repeated) if repeated else None


def usual_repeats(counts: Sequence[int]) -> int:
    """Return the median of the numbers of repeats that tasks have in the arms; of two in the middle the smaller one."""
    return sorted(counts)[(len(counts) - 1) // 2]


def _interval(units: int, difference: float, variance: float, alpha: float, scores: bool) -> tuple[float, float, float]:
    """Return where a one-sided interval's middle falls, with what standard deviation, and how far the bound lies from it."""
    if scores:
        total = units + PSEUDO_UNITS
        center = units * difference / total
        squares = (units * (variance + difference**2) + PSEUDO_UNITS) / total
        return center, math.sqrt(units * variance) / total, z_quantile(alpha) * math.sqrt((squares - center**2) / total)
    if units < _fewest_signs(alpha):
        return difference, 0.0, math.inf
    error = math.sqrt(variance / units)
    t = student_quantile(alpha, units - 1)
    return difference, error * math.sqrt(1 + t**2 / (2 * units)), t * error  # the error varies too: Johnson & Welch 1940


def _passing(units: int, half: float, margin: float, alpha: float, scores: bool) -> float:
    """Return how high the middle has to lie for the lower bound to lie above -margin; of scores for units lost whole too, see
    `paired`."""
    if not scores or margin >= 1:
        return half - margin
    # From this mean on so few units are lost that a loss of the margin is refuted.
    if (1 - margin) ** units >= alpha:
        least = 1 - margin - float(alpha ** (1 / units))
    else:
        least = -float(scipy.special.bdtrik(alpha, units, margin)) / units
    return max(half - margin, least * units / (units + PSEUDO_UNITS))


def _below(limit: float, center: float, deviation: float) -> float:
    """Return the chance that a normal value falls below a limit."""
    if deviation == 0:
        return float(center < limit)
    return float(scipy.special.ndtr((limit - center) / deviation))


@lru_cache(maxsize=64)
def _fewest_signs(alpha: float) -> int:
    """Return the fewest units whose signs all agree by chance, 2⁻ⁿ, more rarely than alpha."""
    return math.floor(-math.log2(alpha)) + 1
