"""Which loop to adopt, as data: one ordered rule over the pairs of loops in each column of a comparison.

A column is a suite, a model and a profile; the mean over the profiles of a model is one more. Loops compete inside a column. A loop
*beats* another one where, in some column, the difference in accuracy is significant after Holm and exceeds the margin.

1. No loop is unbeaten: *Depends*, with the best loop of each column.
2. One loop is unbeaten: *Adopt* it.
3. Several are, and each two of them are equal in every column, the interval of their difference within ± `EQUAL`: *Adopt* the one
   that is cheaper than each other by `SAVING` or more, with paired intervals that exclude 0; if none is, *Tie*, the cheapest first.
4. Else *Undecided*: the unbeaten loops, and the number of tasks that would decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.pairs import MARGIN, Pair
from whichloop.metrics.statistics import NO_SPREAD, Interval, interval_json
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import Unit

from .measured_forms import applies, are_mixed

Outcome = Literal["Adopt", "Tie", "Depends", "Undecided"]
Place = Literal["best", "worse", ""]
"""best: the highest mean of its column; worse: significantly lower than it; empty: neither, or compared with no other."""
EQUAL = 0.05
"""Accuracies of two loops are equal where the interval of their difference lies within ± this."""
SAVING = 0.05
"""Least share by which a loop is cheaper than another."""
MAX_TASKS = 100_000
"""Numbers of tasks beyond this are out of reach."""
MEAN = "mean"
"""The column of the mean over a model's profiles."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Two loops in one column: the accuracy of `a` minus that of `b`."""

    a: str
    b: str
    column: str
    value: float
    low: float = -math.inf
    high: float = math.inf
    is_shown: bool = False
    """Whether the difference is significant after Holm."""
    tasks: int | None = None
    """How many would decide it; None where it is decided, or no number within reach would."""
    is_of_these_tasks: bool = False
    """Whether it is the repeats of few tasks that show it, which speak for these tasks alone."""

    @property
    def is_equal(self) -> bool:
        """Whether the whole interval lies within ± `EQUAL`."""
        return self.low >= -EQUAL and self.high <= EQUAL


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rule gives."""

    outcome: Outcome
    loops: tuple[str, ...] = ()
    """Adopt: the loop. Tie: the loops, the cheapest first. Undecided: the unbeaten ones, as they were given. Depends: none."""
    tasks: int | None = None
    """Undecided: the number of tasks that would decide; None where none within reach would."""


def decide(
    loops: Sequence[str],
    gaps: Sequence[Gap],
    savings: Mapping[tuple[str, str], float] | None = None,
    costs: Mapping[str, float] | None = None,
    margin: float = MARGIN,
) -> Decision:
    """Apply the rule of this module.

    `savings`: (a, b) → the share that a trial costs less in a than in b, where paired intervals show it in every column.
    `costs`: loop → what a trial costs, for the order of a tie.
    """
    beaten = {g.b if g.value > 0 else g.a for g in gaps if g.is_shown and round(abs(g.value), 9) > margin}
    unbeaten = [loop for loop in loops if loop not in beaten]
    if not unbeaten:
        return Decision("Depends")
    if len(unbeaten) == 1:
        return Decision("Adopt", tuple(unbeaten))
    pairs = [[g for g in gaps if {g.a, g.b} == {a, b}] for a, b in combinations(unbeaten, 2)]
    open_pairs = [pair for pair in pairs if not pair or not all(g.is_equal for g in pair)]
    if open_pairs:
        least = [min((g.tasks for g in pair if g.tasks is not None), default=MAX_TASKS + 1) for pair in open_pairs]
        return Decision("Undecided", tuple(unbeaten), max(least) if max(least) <= MAX_TASKS else None)
    for loop in unbeaten:
        if all((savings or {}).get((loop, other), 0.0) >= SAVING for other in unbeaten if other != loop):
            return Decision("Adopt", (loop,))
    known_costs = costs or {}
    return Decision("Tie", tuple(sorted(unbeaten, key=lambda loop: (known_costs.get(loop, math.inf), loop))))


@dataclass(frozen=True, slots=True)
class LoopCell:
    """A loop in one column."""

    arm: ArmResult
    place: Place
    is_judged: bool = True
    """Whether the profile applies to the loop's form of calls; where it does not, the accuracy is that of no model."""

    @property
    def accuracy(self) -> Interval | None:
        return self.arm.summary.accuracy if self.is_judged else None


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop over all columns; its amounts are means over them."""

    loop: str
    cells: Mapping[str, LoopCell]
    """Column → cell; a column in which the loop did not run is left out."""

    @property
    def accuracy(self) -> float:
        """The mean over the columns; -1 where nothing is known."""
        known = [cell.accuracy.value for cell in self.cells.values() if cell.accuracy is not None]
        return math.fsum(known) / len(known) if known else -1.0

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure over the columns; None where it is not known in all of them."""
        means = [cell.arm.summary.means[measure] for cell in self.cells.values() if cell.is_judged]
        known = [mean.value for mean in means if mean is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(means) else None

    @property
    def arms(self) -> list[ArmResult]:
        """The loop's arms, without those whose profile does not apply to it."""
        return [cell.arm for cell in self.cells.values() if cell.is_judged]

    def total(self, count: str) -> int:
        """Return the sum of a count of the arms' summaries."""
        return sum(getattr(arm.summary, count) or 0 for arm in self.arms)


@dataclass(frozen=True, slots=True)
class Column:
    """A suite, a model and a profile: the arms that compete in it, and their pairs."""

    name: str
    arms: tuple[ArmResult, ...]
    pairs: tuple[Pair, ...]
    """On accuracy."""
    costs: tuple[Pair, ...] = ()
    """On the unit of cost."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison says, as data."""

    rows: tuple[LoopRow, ...]
    """The most accurate loop first."""
    columns: tuple[str, ...]
    unit: Unit
    decision: Decision | None
    """None for a single loop, and where no verdict holds."""
    best: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column → its best loops."""
    savings: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """As `decide` takes them."""
    is_of_these_tasks: bool = False
    """Whether the repeats of few tasks decided, which speak for these tasks alone."""
    is_by_mean: bool = False
    """Whether it takes the mean over the profiles to decide so: the profiles by themselves give another outcome."""

    def row(self, loop: str) -> LoopRow:
        return next(row for row in self.rows if row.loop == loop)

    @property
    def cheaper(self) -> tuple[str, ...]:
        """The loops that are shown to cost less than the adopted one, the most accurate first; none that crashed."""
        if self.decision is None or self.decision.outcome != "Adopt":
            return ()
        (adopted,) = self.decision.loops
        whole = [row.loop for row in self.rows if not any(arm.summary.crashes for arm in row.arms)]
        return tuple(loop for loop in whole if self.savings.get((loop, adopted), 0.0) >= SAVING)

    def to_json(self) -> dict[str, Any]:
        decision = self.decision
        return {
            "outcome": decision and decision.outcome.lower(),
            "loops": list(decision.loops) if decision else [],
            "tasks": decision and decision.tasks,
            "of_these_tasks": self.is_of_these_tasks,
            "by_mean": self.is_by_mean,
            "best": {column: list(loops) for column, loops in self.best.items()},
            "cheaper": [{"loop": loop, "saving": self.savings[loop, decision.loops[0]]} for loop in self.cheaper if decision],
            "unit": self.unit,
            "columns": list(self.columns),
            "rows": [
                {
                    "loop": row.loop,
                    "cost": row.mean(self.unit),
                    "cells": {
                        name: {"arm": cell.arm.info.arm, "accuracy": interval_json(cell.accuracy), "place": cell.place}
                        for name, cell in row.cells.items()
                    },
                }
                for row in self.rows
            ],
        }


def verdict(comparison: Comparison) -> Verdict:
    """Return the verdict of one run."""
    return verdict_of(columns_of(comparison), comparison.alpha, comparison.margin, means=means_of(comparison))


def verdict_of(columns: Sequence[Column], alpha: float, margin: float, *, means: Sequence[Gap] = ()) -> Verdict:
    """Return the verdict of columns, of one run or of several.

    `means`: the gaps over the mean of each model's profiles; several runs have none, since no family holds them together.
    """
    arms = [arm for column in columns for arm in column.arms]
    unit = unit_of_cost(arms)
    places = {column.name: _places(column) for column in columns}
    cells: dict[str, dict[str, LoopCell]] = {}
    for column in columns:
        for arm in column.arms:
            is_judged = applies(arm.info)
            cells.setdefault(arm.info.variant, {})[column.name] = LoopCell(
                arm, places[column.name].get(arm.info.arm, ""), is_judged
            )
    rows = sorted((LoopRow(loop, own) for loop, own in cells.items()), key=lambda row: -row.accuracy)
    gaps = [gap for column in columns for gap in _gaps(column, alpha)] + list(means)
    competing = {loop for gap in gaps for loop in (gap.a, gap.b)}
    loops, savings = [row.loop for row in rows if row.loop in competing], _savings(columns, unit)
    costs = {row.loop: cost for row in rows if (cost := row.mean(unit)) is not None}
    best = {
        name: tuple(row.loop for row in rows if name in row.cells and row.cells[name].place == "best")
        for name in places
        if any(place for place in places[name].values())
    }
    for name in dict.fromkeys(gap.column for gap in means):
        of_column = [gap for gap in means if gap.column == name]
        lower = {gap.a if gap.value < 0 else gap.b for gap in of_column if abs(gap.value) > NO_SPREAD}
        best[name] = tuple(loop for loop in loops if any(loop in (gap.a, gap.b) for gap in of_column) and loop not in lower)
    decision = decide(loops, gaps, savings, costs, margin) if len(loops) > 1 else None
    apart = decide(loops, gaps[: len(gaps) - len(means)], savings, costs, margin) if means and decision else decision
    return Verdict(
        tuple(rows),
        tuple(column.name for column in columns),
        unit,
        decision,
        best,
        savings,
        is_of_these_tasks=any(gap.is_of_these_tasks for gap in gaps),
        is_by_mean=decision is not None
        and apart is not None
        and (decision.outcome, decision.loops) != (apart.outcome, apart.loops),
    )


def columns_of(comparison: Comparison, prefix: str = "") -> list[Column]:
    """Return the columns of a run. `prefix`: stands before their names, as where several runs are read together."""
    infos = comparison.infos
    pairs = () if comparison.invalid else comparison.pairs
    unit, columns = unit_of_cost(comparison.arms), []
    for key in dict.fromkeys(map(_key, infos)):
        own = tuple(arm for arm in comparison.arms if _key(arm.info) == key)
        names = {arm.info.arm for arm in own if applies(arm.info) and not arm.death_cause}
        of_column = [pair for pair in pairs if {pair.a, pair.b} <= names]
        of_accuracy, of_costs = (tuple(pair for pair in of_column if pair.metric == each) for each in (PRIMARY, unit))
        columns.append(Column(f"{prefix}{_heading(own[0].info, infos)}", own, of_accuracy, of_costs))
    return columns


def means_of(comparison: Comparison) -> list[Gap]:
    """Return the gaps over the mean of each model's profiles; none where a mean over them is of nothing."""
    if comparison.invalid or are_mixed(comparison.infos):
        return []
    infos = {info.without_profile: info for info in comparison.infos}
    models, gaps = {info.model for info in infos.values()}, []
    for pair in comparison.pooled:
        a, b = infos[pair.a], infos[pair.b]
        if a.model == b.model:
            name = MEAN if len(models) == 1 else f"{a.model}, {MEAN}"
            gaps.append(_gap(pair, (a.variant, b.variant), name, comparison.alpha))
    return gaps


def unit_of_cost(arms: Sequence[ArmResult]) -> Unit:
    """Return what costs are told in: dollars where they are known of all arms, or of some and tokens of none.

    Dollars are uncached, as limits and budgets count them, unless that is known of no arm.
    """
    in_usd, in_tokens, uncached = (
        [arm.summary.means[unit] is not None for arm in arms] for unit in ("cost_usd", "tokens", "nominal_usd")
    )
    if not arms or not (all(in_usd) or (any(in_usd) and not any(in_tokens))):
        return "tokens"
    return "nominal_usd" if uncached == in_usd else "cost_usd"


def _key(info: ArmInfo) -> tuple[str, str, str]:
    return info.suite, info.model, info.profile


def _heading(info: ArmInfo, infos: Iterable[ArmInfo]) -> str:
    """Return what tells a column from the others: the profile, the model, or both."""
    keys = [_key(each) for each in infos]
    told = [part for part, number in ((info.suite, 0), (info.model, 1)) if len({key[number] for key in keys}) > 1]
    is_one_profile = len({key[2] for key in keys}) == 1
    return ", ".join([*told, *([] if told and is_one_profile else [info.profile])])


def _places(column: Column) -> dict[str, Place]:
    """Return the place of each arm that is compared with another one."""
    # Means are rounded, since sums of the same scores differ in their last digits.
    compared = {name for pair in column.pairs for name in (pair.a, pair.b)}
    means = {
        arm.info.arm: round(arm.summary.accuracy.value, 9)
        for arm in column.arms
        if arm.info.arm in compared and arm.summary.accuracy is not None
    }
    best = {arm for arm, mean in means.items() if mean == max(means.values())}
    apart = [{pair.a, pair.b} for pair in column.pairs if pair.verdict.word in ("better", "worse")]
    return {arm: "best" if arm in best else "worse" if any(arm in pair and pair & best for pair in apart) else "" for arm in means}


def _gaps(column: Column, alpha: float) -> Iterator[Gap]:
    variants = {arm.info.arm: arm.info.variant for arm in column.arms}
    for pair in column.pairs:
        yield _gap(pair, (variants[pair.a], variants[pair.b]), column.name, alpha)


def _gap(pair: Pair, loops: tuple[str, str], column: str, alpha: float) -> Gap:
    """Return what the rule reads of a pair; where tasks are too few to speak for others, what their repeats show of these."""
    word, within, difference = pair.verdict.word, pair.within, pair.difference
    size = None if pair.outlook is None else pair.outlook.more.tasks
    if word == "undecided" and within is not None and within.is_apart(alpha):
        value = math.copysign(difference.value, within.excess)  # arms may have other numbers of repeats
        return Gap(*loops, column, value, is_shown=True, tasks=size, is_of_these_tasks=True)
    ends = (difference.low, difference.high) if difference.is_known else (-math.inf, math.inf)
    return Gap(*loops, column, difference.value, *ends, word in ("better", "worse"), size)


def _savings(columns: Sequence[Column], unit: Unit) -> dict[tuple[str, str], float]:
    """Return the share that a loop costs less than another over the columns that both have, where the paired interval of each shows
    it."""
    spent: dict[tuple[str, str], list[tuple[bool, float, float]]] = {}
    for column in columns:
        arms = {arm.info.arm: arm for arm in column.arms}
        for pair in (turned for each in column.costs for turned in (each, each.turned)):
            a, b = arms[pair.a], arms[pair.b]
            mean, other = a.summary.means[unit], b.summary.means[unit]
            if mean is not None and other is not None:
                told = (pair.verdict.word == "better", mean.value, other.value)
                spent.setdefault((a.info.variant, b.info.variant), []).append(told)
    return {
        loops: 1 - math.fsum(mean for _, mean, _ in each) / whole
        for loops, each in spent.items()
        if all(is_shown for is_shown, _, _ in each) and (whole := math.fsum(other for _, _, other in each))
    }
