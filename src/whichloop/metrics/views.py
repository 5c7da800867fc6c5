"""Other ways to look at a comparison: accuracy against cost, at equal budgets, cost per solved task, repeats, confidence.

Arms of one suite and profile are seen together, over the tasks scored in all of them. Cost is counted in US dollars where prices
are known in every arm, as if nothing had come from a cache or a recording where that is known, and in tokens: means are over the
trials whose cost is known, and budgets need that of every trial. Where a cache makes dollars less, accuracy stands against both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .arm_info import ArmInfo, exceeds
from .bootstrap import bca_ratio, draw_sums, unit_sums
from .calibration import Calibration, calibration
from .measures import is_priced_by_cache
from .paired import are_too_few, mean_interval, no_interval
from .pairs import AT_BUDGET, MARGIN, Pair, paired_test, pairs_of_family
from .record import Record, records_by_arm
from .reliability import Reliability, reliability
from .statistics import ALPHA, Floats, Interval, Plain, accuracy_interval, as_array, unit_values
from .summary import MAX_VALUE, METRICS, PRIMARY, death_cause, task_values

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
UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, slots=True)
class CostPoint(Plain):
    """An arm on the plane of accuracy and cost."""

    arm: str
    accuracy: Interval
    cost: Interval
    """Per trial."""
    on_front: bool
    """No arm is as accurate and as cheap, and better in one of the two (Pareto)."""
    front_share: float
    """Share of the bootstrap draws of units in which it is on the front."""


@dataclass(frozen=True, slots=True)
class Front(Plain):
    """The arms of one group, in US dollars where they are known of every arm, else in tokens.

    Where a cache makes dollars less, a group has one in dollars as billed after that in uncached ones.
    """

    suite: str
    profile: str
    unit: Unit
    points: tuple[CostPoint, ...]


@dataclass(frozen=True, slots=True)
class AtBudget(Plain):
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


@dataclass(frozen=True, slots=True)
class PerSolved(Plain):
    """What one solved task costs: an arm's whole cost over its whole score, task means of each, where the cost is known."""

    arm: str
    unit: Unit
    value: Interval | None
    """Its upper end is infinite where a draw of tasks may hold no solved one; None where nothing was solved."""


@dataclass(frozen=True, slots=True)
class Views(Plain):
    """All views of one run."""

    fronts: tuple[Front, ...]
    budgets: tuple[AtBudget, ...]
    per_solved: tuple[PerSolved, ...]
    confidence: tuple[Calibration, ...]
    """Of the arms that report it."""
    reliability: tuple[Reliability, ...]
    """Of the arms with repeats."""


def views(
    records: Sequence[Record],
    arms: Sequence[ArmInfo],
    budgets: Sequence[AtBudget],
    *,
    alpha: float = ALPHA,
) -> Views:
    """Return all views of records, one per trial. `budgets`: what `at_budgets` found, which takes no bootstrap."""
    scored = _scored(records, arms)
    return Views(
        tuple(front for group in _groups(arms, scored) for front in _fronts(group, alpha)),
        tuple(budgets),
        tuple(
            _per_solved(arm, trials, unit, alpha) for arm, trials in scored.items() for unit in UNITS if _is_priced(trials, unit)
        ),
        tuple(found for arm, trials in scored.items() if (found := calibration(arm, trials, alpha))),
        tuple(tried for arm, trials in scored.items() if (tried := reliability(arm, trials, alpha))),
    )


def at_budgets(
    records: Sequence[Record], arms: Sequence[ArmInfo], *, alpha: float = ALPHA, margin: float = MARGIN
) -> tuple[AtBudget, ...]:
    """Return the arms of each group at equal budgets.

    Dollars as billed have budgets only where nothing says what they would be uncached.
    """
    found: list[AtBudget] = []
    for group in _groups(arms, _scored(records, arms)):
        trials = [record for own in group.arms.values() for record in own]
        other = "cost_usd" if all(METRICS["nominal_usd"](record) is not None for record in trials) else "nominal_usd"
        for unit in UNITS:
            if unit != other and _is_priced(trials, unit, of_each=True):
                found += _budgets(group, trials, unit, alpha, margin)
    return tuple(found)


def _scored(records: Sequence[Record], arms: Sequence[ArmInfo]) -> dict[str, Sequence[Record]]:
    return {arm: [record for record in own if record.status == "scored"] for arm, own in records_by_arm(records, arms).items()}


@dataclass(frozen=True, slots=True)
class _Group:
    """Arms of one suite and profile: their trials of the tasks that were scored in each. Without those that never asked their
    model or crashed in every trial: they cost nothing, and so would be the cheapest."""

    suite: str
    profile: str
    clusters: Mapping[str, str]
    """Task → cluster."""
    arms: Mapping[str, Sequence[Record]]


def _groups(arms: Sequence[ArmInfo], scored: Mapping[str, Sequence[Record]]) -> list[_Group]:
    members: dict[tuple[str, str], list[str]] = {}
    for info in arms:
        if scored[info.arm] and not death_cause(scored[info.arm]):
            members.setdefault((info.suite, info.profile), []).append(info.arm)
    groups = []
    for (suite, profile), names in members.items():
        common = set.intersection(*({record.task for record in scored[name]} for name in names))
        if len(names) > 1 and common:
            clusters = {record.task: record.cluster for record in scored[names[0]] if record.task in common}
            trials = {name: [record for record in scored[name] if record.task in common] for name in names}
            groups.append(_Group(suite, profile, clusters, trials))
    return groups


def _is_priced(records: Sequence[Record], unit: Unit, *, of_each: bool = False) -> bool:
    """Whether the costs that are known are plausible ones, and some trial cost anything; `of_each`: and all are known."""
    costs = [METRICS[unit](record) for record in records]
    known = [cost for cost in costs if cost is not None]
    return any(known) and all(0 <= cost < MAX_VALUE for cost in known) and (len(known) == len(costs) or not of_each)


# --- accuracy against cost ---


def _fronts(group: _Group, alpha: float) -> Iterator[Front]:
    trials = [record for own in group.arms.values() for record in own]
    priced = {unit: costs for unit in UNITS if (costs := _costs(group, trials, unit))}
    shown = list(priced)[:1]
    is_cached = shown == ["nominal_usd"] and all(map(is_priced_by_cache, trials))
    if is_cached and priced.get("cost_usd") not in (None, priced["nominal_usd"]):
        shown.append("cost_usd")
    for unit in shown:
        yield _front(group, unit, priced[unit], alpha)


def _costs(group: _Group, trials: Sequence[Record], unit: Unit) -> dict[str, dict[str, float]]:
    """Return arm → task → mean cost of its trials whose cost is known; empty where none is, or none of a task in every arm."""
    if not _is_priced(trials, unit):
        return {}
    means = {arm: task_values(own, METRICS[unit]).means for arm, own in group.arms.items()}
    costs = {arm: {task: own[task] for task in group.clusters if task in own} for arm, own in means.items()}
    return costs if set.intersection(*map(set, costs.values())) else {}


def _front(group: _Group, unit: Unit, costs: Mapping[str, Mapping[str, float]], alpha: float) -> Front:
    clusters, arms = group.clusters, list(group.arms)
    scores = {arm: task_values(own, METRICS[PRIMARY]) for arm, own in group.arms.items()}
    common = [task for task in clusters if all(task in own for own in costs.values())]
    accuracies, prices = (
        np.array([[of_arm[task] for of_arm in means] for task in common])
        for means in ([scores[arm].means for arm in arms], [costs[arm] for arm in arms])
    )
    shares = front_shares(accuracies, prices, [clusters[task] for task in common])
    right = [accuracy_interval([scores[arm].values[task] for task in clusters], [*clusters.values()], alpha) for arm in arms]
    dear = [mean_interval([*own.values()], [clusters[task] for task in own], alpha) for own in costs.values()]
    ahead = on_front(*(np.array([[interval.value for interval in side]]) for side in (right, dear)))[0]
    points = map(CostPoint, arms, right, dear, ahead.tolist(), shares.tolist())
    return Front(group.suite, group.profile, unit, tuple(points))


def front_shares(accuracy: Floats, cost: Floats, clusters: Sequence[str] | None = None, draws: int = DRAWS) -> Floats:
    """Return the share of bootstrap draws of units in which each arm is on the front; `accuracy[task, arm]`, `cost[task, arm]`.

    A draw takes the same units in all arms, so that what is hard or dear for all moves no arm against another.
    """
    arms = accuracy.shape[1]
    sums = unit_sums(np.hstack((accuracy, cost, np.ones((len(accuracy), 1)))), clusters)
    drawn = draw_sums(sums, draws)
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


def _budgets(group: _Group, trials: Sequence[Record], unit: Unit, alpha: float, margin: float) -> Iterator[AtBudget]:
    costs = [float(METRICS[unit](record) or 0.0) for record in trials]
    budgets = quartiles(costs if unit == "tokens" else list(map(to_be_typed, costs)))
    within = {
        quartile: {arm: task_values(own, within_limit(budget, unit)) for arm, own in group.arms.items()}
        for quartile, budget in budgets.items()
    }
    matched = list(combinations(group.arms, 2)) if len(group.arms) <= MAX_PAIRED else []
    tests = [
        (quartile, ((a, b), test))
        for quartile, values in within.items()
        for a, b in matched
        if (test := paired_test(AT_BUDGET, values[a], values[b], margin)) is not None
    ]
    decided = pairs_of_family(AT_BUDGET, [test for _, test in tests], alpha)
    for quartile, budget in budgets.items():
        arms = {
            arm: accuracy_interval([*values.values.values()], [*values.clusters.values()], alpha)
            for arm, values in within[quartile].items()
        }
        pairs = tuple(pair for (at, _), pair in zip(tests, decided, strict=True) if at == quartile)
        yield AtBudget(group.suite, group.profile, unit, budget, quartile, arms, pairs)


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
        cost = METRICS[unit](record)
        return 0.0 if cost is None or exceeds(cost, budget) else record.accuracy

    return score


# --- the price of a solved task ---


def _per_solved(arm: str, records: Sequence[Record], unit: Unit, alpha: float) -> PerSolved:
    cost, solved = task_values(records, METRICS[unit]), task_values(records, METRICS[PRIMARY]).means
    value = cost_per_solved([*cost.means.values()], [solved[task] for task in cost.means], [*cost.clusters.values()], alpha)
    return PerSolved(arm, unit, value)


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
