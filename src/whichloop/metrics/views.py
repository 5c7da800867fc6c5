"""Other ways to look at a comparison: accuracy against cost, at equal budgets, cost per solved task, repeats, confidence.

Arms of one suite and profile are seen together, over the tasks scored in all of them. Cost is counted in US dollars where prices
are known in every arm, as if nothing had come from a cache or a recording where that is known, and in tokens: means are over the
trials whose cost is known, and budgets need that of every trial. Where a cache makes dollars less, accuracy stands against both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .arm_info import ArmInfo, exceeds
from .bootstrap import bca_ratio, draw_sums, unit_sums
from .calibration import Calibration, calibration
from .measures import is_priced_by_cache
from .paired import are_too_few, mean_interval, no_interval
from .pairs import AT_BUDGET, MARGIN, Pair, PairTest, judged, paired_test
from .record import Record, records_by_arm
from .record_table import alike, distinct, of_tasks, where
from .reliability import Reliability, reliability
from .statistics import ALPHA, Floats, Interval, accuracy_interval, as_array, interval_json, unit_values
from .summary import MAX_VALUE, METRICS, PRIMARY, TaskValues, death_cause, labels, task_values

DRAWS = 1_999
"""Bootstrap draws of a view."""
MAX_PAIRED = 16
"""Arms of a group up to which they are compared in pairs at each budget: the pairs' number grows with the square of theirs."""
QUARTILES = (0.25, 0.5, 0.75)
LIMIT_DIGITS = 3
_DIGITS = 9
"""Means that differ by less are equal but for rounding."""

Unit = Literal["nominal_usd", "cost_usd", "tokens"]
"""Dollars uncached, dollars with whatever a cache served, and tokens."""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """An arm on the plane of accuracy and cost."""

    arm: str
    accuracy: Interval
    cost: Interval
    """Per trial."""
    on_front: bool
    """No arm is as accurate and as cheap, and better in one of the two (Pareto)."""
    front_share: float
    """Share of the bootstrap draws of units in which it is on the front."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "accuracy": self.accuracy.as_dict(),
            "cost": self.cost.as_dict(),
            "on_front": self.on_front,
            "front_share": self.front_share,
        }


@dataclass(frozen=True, slots=True)
class Front:
    """The arms of one group, in US dollars where they are known of every arm, else in tokens."""

    suite: str
    profile: str
    unit: Unit
    points: tuple[CostPoint, ...]
    is_beside_uncached: bool = False
    """Whether the same arms have a front in uncached dollars, too, which another one in dollars differs from by a cache."""

    @property
    def counted(self) -> str:
        """What tables call the unit."""
        return labels([self.unit, "nominal_usd"] if self.is_beside_uncached else [self.unit])[self.unit]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "suite": self.suite,
            "profile": self.profile,
            "unit": self.unit,
            "points": [point.to_json() for point in self.points],
        }


@dataclass(frozen=True, slots=True)
class AtBudget:
    """The arms of one group where a trial scores only if it cost at most `budget`."""

    suite: str
    profile: str
    unit: Unit
    budget: float
    """A quartile of what the group's trials cost."""
    quartile: float
    """Which: 0.25, 0.5 or 0.75."""
    arms: Mapping[str, Interval]
    """Arm → accuracy within the budget."""
    pairs: tuple[Pair, ...]
    """Adjusted over all pairs and budgets of the group and unit (Holm); none of more than 16 arms."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "suite": self.suite,
            "profile": self.profile,
            "unit": self.unit,
            "budget": self.budget,
            "quartile": self.quartile,
            "arms": {arm: interval.as_dict() for arm, interval in self.arms.items()},
            "pairs": [pair.to_json() for pair in self.pairs],
        }


@dataclass(frozen=True, slots=True)
class PerSolved:
    """What one solved task costs: an arm's whole cost over its whole score, task means of each, where the cost is known."""

    arm: str
    unit: Unit
    value: Interval | None
    """Its upper end is infinite where a draw of tasks may hold no solved one; None where nothing was solved."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for what is infinite."""
        return {"arm": self.arm, "unit": self.unit, "value": interval_json(self.value)}


@dataclass(frozen=True, slots=True)
class Views:
    """All views of one run."""

    fronts: tuple[Front, ...]
    budgets: tuple[AtBudget, ...]
    per_solved: tuple[PerSolved, ...]
    confidence: tuple[Calibration, ...]
    """Of the arms that report it."""
    reliability: tuple[Reliability, ...]
    """Of the arms with repeats."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "fronts": [view.to_json() for view in self.fronts],
            "budgets": [view.to_json() for view in self.budgets],
            "per_solved": [view.to_json() for view in self.per_solved],
            "confidence": [view.to_json() for view in self.confidence],
            "reliability": [view.to_json() for view in self.reliability],
        }


def views(
    records: Sequence[Record],
    arms: Sequence[ArmInfo],
    budgets: Sequence[AtBudget] | None = None,
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    seed: int = 0,
) -> Views:
    """Return all views of records, one per trial. `budgets`: what `at_budgets` found, if known; `seed`: of the draws."""
    scored = _scored(records, arms)
    groups = _groups(arms, scored)
    return Views(
        tuple(front for group in groups for front in _fronts(group, alpha, seed)),
        at_budgets(records, arms, alpha=alpha, margin=margin) if budgets is None else tuple(budgets),
        tuple(
            cost_of_solved
            for arm, trials in scored.items()
            for unit in COSTS
            for cost_of_solved in _per_solved(arm, trials, unit, alpha)
        ),
        tuple(arm_calibration for arm, trials in scored.items() if (arm_calibration := calibration(arm, trials, alpha))),
        tuple(tried for arm, trials in scored.items() if (tried := reliability(arm, trials, alpha))),
    )


def at_budgets(
    records: Sequence[Record], arms: Sequence[ArmInfo], *, alpha: float = ALPHA, margin: float = MARGIN
) -> tuple[AtBudget, ...]:
    """Return the view at equal budgets alone, which takes no bootstrap."""
    groups = _groups(arms, _scored(records, arms))
    return tuple(at_budget for group in groups for unit in _budgeted(group) for at_budget in _budgets(group, unit, alpha, margin))


def _scored(records: Sequence[Record], arms: Sequence[ArmInfo]) -> dict[str, Sequence[Record]]:
    return {arm: where(own, lambda record: record.status == "scored") for arm, own in records_by_arm(records, arms).items()}


COSTS: Mapping[Unit, Callable[[Record], float | None]] = {
    "nominal_usd": METRICS["nominal_usd"],
    "cost_usd": METRICS["cost_usd"],
    "tokens": METRICS["tokens"],
}


@dataclass(frozen=True, slots=True)
class _Group:
    """Arms of one suite and profile: their trials of the tasks that were scored in each. Without those that never asked their
    model or crashed in every trial: they cost nothing, and so would be the cheapest."""

    suite: str
    profile: str
    tasks: tuple[str, ...]
    clusters: tuple[str, ...]
    arms: Mapping[str, Sequence[Record]]

    def only(self, tasks: Container[str]) -> _Group:
        """Return the group with these of its tasks."""
        pairs_kept = [(task, cluster) for task, cluster in zip(self.tasks, self.clusters, strict=True) if task in tasks]
        return replace(self, tasks=tuple(task for task, _ in pairs_kept), clusters=tuple(cluster for _, cluster in pairs_kept))

    def values(self, arm: str, metric: Callable[[Record], float | None]) -> list[Sequence[float]]:
        """Return an arm's values of a metric, as [task][repeat]."""
        task_scores = task_values(self.arms[arm], metric).values
        return [task_scores[task] for task in self.tasks]

    def means(self, metric: Callable[[Record], float | None]) -> Floats:
        """Return the task means of a metric, as [task, arm]."""
        return np.array([[math.fsum(task) / len(task) for task in self.values(arm, metric)] for arm in self.arms]).T


def _groups(arms: Sequence[ArmInfo], scored: Mapping[str, Sequence[Record]]) -> list[_Group]:
    members: dict[tuple[str, str], list[str]] = {}
    for info in arms:
        if scored[info.arm] and not death_cause(scored[info.arm]):
            members.setdefault((info.suite, info.profile), []).append(info.arm)
    groups = []
    for (suite, profile), names in members.items():
        common = set.intersection(*({record.task for record in distinct(scored[name])} for name in names))
        if len(names) > 1 and common:
            clusters = {record.task: record.cluster for record in alike(scored[names[0]]) if record.task in common}
            own = {name: of_tasks(scored[name], common) for name in names}
            groups.append(_Group(suite, profile, tuple(clusters), tuple(clusters.values()), own))
    return groups


def _is_known(records: Sequence[Record], unit: Unit) -> bool:
    """Whether the cost of every trial is known in this unit, and some trial cost anything."""
    costs = [COSTS[unit](record) for record in distinct(records)]
    return all(cost is not None and 0 <= cost < MAX_VALUE for cost in costs) and any(costs)


# --- accuracy against cost ---


def _fronts(group: _Group, alpha: float, seed: int) -> list[Front]:
    known_unit = next(((unit, costs) for unit in COSTS if (costs := _costs(group, unit))), None)
    if known_unit is None:
        return []
    fronts = [_front(group, *known_unit, alpha, seed)]
    is_cached = known_unit[0] == "nominal_usd" and all(
        is_priced_by_cache(each) for records in group.arms.values() for each in distinct(records)
    )
    if is_cached and (cached := _costs(group, "cost_usd")) and cached != known_unit[1]:
        fronts.append(replace(_front(group, "cost_usd", cached, alpha, seed), is_beside_uncached=True))
    return fronts


def _front(group: _Group, unit: Unit, costs: Mapping[str, Mapping[str, float]], alpha: float, seed: int) -> Front:
    common = group.only(set.intersection(*(set(by_task) for by_task in costs.values())))
    shares = front_shares(common.means(METRICS[PRIMARY]), common.means(COSTS[unit]), common.clusters, seed)
    right = {arm: accuracy_interval(group.values(arm, METRICS[PRIMARY]), group.clusters, alpha) for arm in group.arms}
    cost = {arm: mean_interval(list(by_task.values()), group.only(by_task).clusters, alpha) for arm, by_task in costs.items()}
    means = [np.array([[interval.value for interval in side.values()]]) for side in (right, cost)]
    is_on_front = on_front(means[0], means[1])[0]
    points = tuple(
        CostPoint(arm, right[arm], cost[arm], bool(is_on_front[place]), float(shares[place]))
        for place, arm in enumerate(group.arms)
    )
    return Front(group.suite, group.profile, unit, points)


def _costs(group: _Group, unit: Unit) -> dict[str, dict[str, float]]:
    """Return arm → task → mean cost of its trials whose cost is known.

    Empty where no task's cost is known in every arm, where a cost is no plausible one, or where all cost nothing.
    """
    with_cost = [record for trials in group.arms.values() for record in distinct(trials) if COSTS[unit](record) is not None]
    if not _is_known(with_cost, unit):
        return {}
    costs = {}
    for arm, trials in group.arms.items():
        values = task_values(trials, COSTS[unit]).values
        costs[arm] = {task: math.fsum(values[task]) / len(values[task]) for task in group.tasks if task in values}
    return costs if set.intersection(*(set(by_task) for by_task in costs.values())) else {}


def front_shares(
    accuracy: Floats, cost: Floats, clusters: Sequence[str] | None = None, seed: int = 0, draws: int = DRAWS
) -> Floats:
    """Return the share of bootstrap draws of units in which each arm is on the front; `accuracy[task, arm]`, `cost[task, arm]`.

    A draw takes the same units in all arms, so that what is hard or dear for all moves no arm against another.
    """
    arms = accuracy.shape[1]
    sums = unit_sums(np.hstack((accuracy, cost, np.ones((len(accuracy), 1)))), clusters)
    drawn = draw_sums(sums, draws, seed)
    means = drawn[:, :-1] / drawn[:, -1:]
    return np.asarray(on_front(means[:, :arms], means[:, arms:]).mean(0), dtype=np.float64)


def on_front(accuracy: Floats, cost: Floats) -> NDArray[np.bool_]:
    """Whether no other arm dominates: `accuracy[draw, arm]`, `cost[draw, arm]`; arms that are equal in both do not dominate."""
    scale = max(float(np.abs(cost).max()), np.finfo(np.float64).tiny)
    right, dear = np.round(accuracy, _DIGITS), np.round(cost / scale, _DIGITS)
    dominated = np.zeros(right.shape, dtype=np.bool_)
    for arm in range(right.shape[1]):
        better, cheaper = right[:, [arm]] - right, dear - dear[:, [arm]]
        dominated |= (better >= 0) & (cheaper >= 0) & ((better > 0) | (cheaper > 0))
    return ~dominated


# --- at equal budgets ---


def _budgeted(group: _Group) -> list[Unit]:
    """Return the units of a group's budgets: dollars as billed only where nothing says what they would be uncached."""
    is_uncached = all(COSTS["nominal_usd"](record) is not None for own in group.arms.values() for record in distinct(own))
    return [unit for unit in COSTS if unit != ("cost_usd" if is_uncached else "nominal_usd")]


def _budgets(group: _Group, unit: Unit, alpha: float, margin: float) -> list[AtBudget]:
    trials = [record for own in group.arms.values() for record in alike(own)]
    if not _is_known(trials, unit):
        return []
    costs = [float(COSTS[unit](record) or 0.0) for record in trials]
    budgets = quartiles(costs if unit == "tokens" else list(map(to_be_typed, costs)))
    within = {
        (quartile, arm): task_values(own, within_limit(budget, unit))
        for quartile, budget in budgets.items()
        for arm, own in group.arms.items()
    }
    tests: dict[tuple[float, str, str], PairTest] = {}
    for quartile in budgets:
        for a, b in combinations(group.arms, 2) if len(group.arms) <= MAX_PAIRED else ():
            test = paired_test(AT_BUDGET, within[quartile, a], within[quartile, b], margin)
            if test is not None:
                tests[quartile, a, b] = test
    pairs = judged(AT_BUDGET, [((a, b), test) for (_, a, b), test in tests.items()], alpha)
    by_quartile = dict(zip(tests, pairs, strict=True))
    return [
        AtBudget(
            group.suite,
            group.profile,
            unit,
            budget,
            quartile,
            {arm: _score(within[quartile, arm], alpha) for arm in group.arms},
            tuple(pair for (at, _, _), pair in by_quartile.items() if at == quartile),
        )
        for quartile, budget in budgets.items()
    ]


def to_be_typed(dollars: float) -> float:
    """Return dollars rounded up to `LIMIT_DIGITS` significant digits: a limit that can be read in a table and typed."""
    exact = Decimal(repr(dollars))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - LIMIT_DIGITS), ROUND_CEILING)) if dollars else 0.0


def quartiles(costs: Sequence[float]) -> dict[float, float]:
    """Return quartile → budget, one that some trial cost; only budgets that differ, and that leave some trial out."""
    values_at: dict[float, float] = {}
    ordered = sorted(costs)
    for share in QUARTILES:
        budget = ordered[math.ceil(share * len(ordered)) - 1]
        if budget < ordered[-1] and budget not in values_at.values():
            values_at[share] = budget
    return values_at


def within_limit(budget: float, unit: Unit) -> Callable[[Record], float]:
    """Return the score of a trial that cost no more, else 0: what a run with this limit for each trial gives."""

    def score(record: Record) -> float:
        cost = COSTS[unit](record)
        return 0.0 if cost is None or exceeds(cost, budget) else record.accuracy

    return score


def _score(values: TaskValues, alpha: float) -> Interval:
    return accuracy_interval(list(values.values.values()), list(values.clusters.values()), alpha)


# --- the price of a solved task ---


def _per_solved(arm: str, records: Sequence[Record], unit: Unit, alpha: float) -> list[PerSolved]:
    if not _is_known([record for record in distinct(records) if COSTS[unit](record) is not None], unit):
        return []
    cost, solved = task_values(records, COSTS[unit]), task_values(records, METRICS[PRIMARY]).means
    value = cost_per_solved(list(cost.means.values()), [solved[task] for task in cost.means], list(cost.clusters.values()), alpha)
    return [PerSolved(arm, unit, value)]


def cost_per_solved(
    cost: Sequence[float], solved: Sequence[float], clusters: Sequence[str] | None = None, alpha: float = ALPHA
) -> Interval | None:
    """Return Σcost/Σsolved over tasks, some of which cost, with the BCa interval of its inverse turned over; None where nothing was
    solved.

    The inverse, tasks solved for a unit of cost, exists in every draw, and a draw that solves nothing is no outlier of it. Where
    every trial solved its task, this is the mean cost, and has its interval.
    """
    if not any(solved):
        return None
    if all(share == 1 for share in solved):
        return mean_interval(cost, clusters, alpha)
    scale = max(cost)
    ratio = bca_ratio(solved, [amount / scale for amount in cost], clusters, alpha, draws=DRAWS)
    units = len(unit_values(as_array(cost), clusters))
    if are_too_few(units, alpha) and ratio.low < ratio.high:
        return no_interval(scale / ratio.value, ratio.n, units)
    high = scale / ratio.low if ratio.low > 0 else math.inf
    return Interval(scale / ratio.value, scale / ratio.high, high, ratio.n)
