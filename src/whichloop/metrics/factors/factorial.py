"""Factorial experiments over tasks: main effects and two-factor interactions, with intervals paired by task.

Every task runs in every cell, so that an effect is one contrast of cell means per task (see `layout`), and its estimate the mean of
these over tasks: the intervals, tests and clusters of `statistics` apply as they do to a pair of arms.

Odds ratios of 0/1 scores come from a logistic model that knows of clusters: generalized estimating equations (Liang & Zeger 1986)
with working independence, which is plain logistic regression with the robust covariance over units of inference, times G/(G-1) for
G units; intervals are Student's with G-1 degrees of freedom on the log scale. What is estimated is the population's odds, averaged
over tasks, not the odds of any one task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy

from whichloop.metrics.paired import PairDecision, PairedFlip, judge_family
from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import (
    ALPHA,
    Clusters,
    Floats,
    Interval,
    PairVerdict,
    interval_json,
    student_quantile,
    unit_groups,
    verdict,
)
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues, task_values

from .layout import Cell, Layout

EFFECT_METRICS = ("accuracy", "steps", "lm_calls", "tokens", "cost_usd")
"""What effects are computed on unless others are asked for."""
_DECIMALS = 12
"""Decimals of a contrast that count, beside the largest mean."""
_NO_DIRECTION = 1e-7
"""An optimum of the linear program that is no more than a rounding error."""
_NO_SPREAD, _MAX = 1e-6, 700.0
"""A standard error of log odds that is no more than a rounding error of the fit, and log odds of which there is still a number."""
_MAX_STEPS, _CONVERGED = 100, 1e-9
"""Newton steps of a logistic fit, which takes about five, and the last one's size in log odds: its error is that squared."""


class Conditional(NamedTuple):
    """What a change does where another factor has one of its values, by itself: it is adjusted for no other effect."""

    change: str
    """`extract: true → false`."""
    given: str
    """`on_parse_error = observe`."""
    difference: Interval
    """In the metric's unit, averaged over all other factors, at confidence 1 - alpha."""
    verdict: PairVerdict


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change of one factor does, or how much more it does where another is changed too."""

    term: str
    """`parse_retries: 0 → 2`, or `parse_retries: 0 → 2 × extract: true → false`."""
    kind: Literal["main", "interaction"]
    factors: tuple[str, ...]
    metric: str
    profile: str
    """The fault profile, or the real model, under which the cells ran."""
    difference: Interval
    """In the metric's unit; for an interaction the difference between two differences."""
    p: float
    """The p of the paired sign-flip test on the tasks' contrasts."""
    p_holm: float
    """Adjusted over all effects on this metric."""
    level: float
    """At which the family tested this effect; `difference` holds 0 iff p_holm >= alpha."""
    margin: float
    """In the metric's unit."""
    verdict: PairVerdict
    """On the change; for an interaction, on both changes together against the sum of each alone."""
    odds_ratio: Interval | None
    """The odds ratio of accuracy, from a logistic model; for an interaction the ratio of two odds ratios. None if absent."""
    aliases: tuple[str, ...] = ()
    """Interactions that this design cannot tell from this one; with a leading `-` those that enter it negatively."""
    conditional: tuple[Conditional, ...] = ()
    """What either change does at both values of the other factor, for an interaction that is known by itself."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""

        def measured(effect: Effect | Conditional) -> dict[str, Any]:
            said = {"verdict": effect.verdict.word, "within_margin": effect.verdict.within_margin}
            return {"difference": effect.difference.as_dict(), **said}

        plain = {name: getattr(self, name) for name in ("term", "kind", "metric", "profile", "p", "p_holm", "level", "margin")}
        conditional = [{"change": each.change, "given": each.given, **measured(each)} for each in self.conditional]
        lists = {"factors": list(self.factors), "aliases": list(self.aliases), "conditional": conditional}
        return {**plain, **measured(self), **lists, "odds_ratio": interval_json(self.odds_ratio)}


def effects(
    groups: Mapping[str, Mapping[Cell, Sequence[Record]]],
    design: Layout,
    *,
    metrics: Sequence[str] = EFFECT_METRICS,
    alpha: float = ALPHA,
    margin: float = MARGIN,
) -> tuple[list[Effect], list[str]]:
    """Return a design's effects, by metric and then by profile, and notes on tasks left out and on odds ratios that there are not.

    `groups`: profile → cell → records. Only tasks with a known value in every cell count. For each metric all effects, under all
    profiles, are one family (Holm). `margin`: as in a comparison, of any metric but a share, such as accuracy, a share of its mean.
    """
    found, notes = list[Effect](), list[str]()
    for metric in metrics:
        tests = list[tuple[PairedFlip, dict[str, Any]]]()
        for profile, cells in groups.items():
            by_cell = [task_values(cells.get(cell, ()), METRICS[metric]) for cell in design.cells]
            own, said = _tests(metric, by_cell, design, alpha, margin)
            tests += [(flip, known | {"metric": metric, "profile": profile}) for flip, known in own]
            notes += [f"{profile}: {note}" for note in said if metric == PRIMARY]
        decisions = judge_family([(flip, known["margin"]) for flip, known in tests], alpha)
        for (_, known), decision in zip(tests, decisions, strict=True):
            tested = {name: getattr(decision, name) for name in ("difference", "p", "p_holm", "level")}
            found.append(Effect(**known, **tested, verdict=_verdict(metric, decision, alpha)))
    return found, notes


def _tests(
    metric: str, by_cell: Sequence[TaskValues], design: Layout, alpha: float, margin: float
) -> tuple[list[tuple[PairedFlip, dict[str, Any]]], list[str]]:
    """Return the test of each effect under one profile, with what is known of it before its family is, and notes."""
    all_tasks = {task for cell in by_cell for task in cell.values}
    tasks = [task for task in by_cell[0].values if all(task in cell.values for cell in by_cell)]
    clusters = [by_cell[0].clusters[task] for task in tasks]
    values = [[cell.values[task] for cell in by_cell] for task in tasks]
    left_out = len(all_tasks) - len(tasks)
    notes = [f"{left_out:,} of {len(all_tasks):,} tasks count in no effect: not scored in every cell."] if left_out else []
    if not tasks:
        return [], notes
    ratios: Sequence[Interval | None] = [None] * len(design.contrasts)
    if metric == PRIMARY:
        ratios, said = _odds(values, design, clusters, alpha)
        notes += said
    means = np.array([[math.fsum(cell) / len(cell) for cell in task] for task in values], dtype=np.float64)
    bound = margin if metric in SHARES else margin * float(means.mean())
    scale = float(np.abs(means).max()) or 1.0

    def flip(weights: Floats) -> PairedFlip:
        """Test a contrast of each task, without rounding errors: equal contrasts are equal numbers."""
        contrasts = np.round(np.asarray(means @ weights, dtype=np.float64) / scale, _DECIMALS) * scale
        # The largest contrast that cell means in [0, 1] can give, as the weights add up to 0.
        return PairedFlip(contrasts, clusters, reach=float(np.abs(weights).sum()) / 2 if metric in SHARES else None)

    tests = list[tuple[PairedFlip, dict[str, Any]]]()
    for contrast, ratio in zip(design.contrasts, ratios, strict=True):
        given = []
        for change, level, weights in contrast.conditional:
            (alone,) = judge_family([(flip(weights), bound)], alpha)
            given.append(Conditional(change, level, alone.difference, _verdict(metric, alone, alpha)))
        kind, told = "main" if len(contrast.factors) == 1 else "interaction", {"conditional": tuple(given), "odds_ratio": ratio}
        named = {name: getattr(contrast, name) for name in ("term", "factors", "aliases")}
        tests.append((flip(contrast.weights), {**named, **told, "kind": kind, "margin": bound}))
    return tests, notes


def _verdict(metric: str, decision: PairDecision, alpha: float) -> PairVerdict:
    advantage = decision.difference.value if metric in GAINS else -decision.difference.value
    return verdict(advantage, decision.p_holm, decision.p_equivalence_holm, alpha)


def _odds(
    values: Sequence[Sequence[Sequence[float]]], design: Layout, clusters: Sequence[str], alpha: float
) -> tuple[Sequence[Interval | None], list[str]]:
    """Return one odds ratio per contrast; where there are none, why. A model without interactions is fitted where the one with them
    has no finite estimate. `values`: task → cell → one value per repeat."""
    none: list[Interval | None] = [None] * len(design.contrasts)
    if any(value not in (0.0, 1.0) for task in values for cell in task for value in cell):
        return none, ["no odds ratios: scores are graded."]
    solved = np.array([[math.fsum(cell) for cell in task] for task in values])
    trials = np.array([[float(len(cell)) for cell in task] for task in values])
    codes = [contrast.code for contrast in design.contrasts]
    try:
        return odds_ratios(solved, trials, design.matrix, codes, clusters, alpha), []
    except NoOdds as error:
        why = error
    mains = sum(len(contrast.factors) == 1 for contrast in design.contrasts)
    columns = 1 + sum(len(factor.levels) - 1 for factor in design.factors)
    try:
        short = [code[:columns] for code in codes[:mains]]
        ratios = odds_ratios(solved, trials, design.matrix[:, :columns], short, clusters, alpha)
    except NoOdds:
        return none, [f"no odds ratios: {why}."]
    return [*ratios, *none[mains:]], [f"odds ratios are those of a model without interactions: {why}."]


class NoOdds(ValueError):
    """There are no odds ratios; says why."""


def odds_ratios(
    solved: Floats, trials: Floats, matrix: Floats, contrasts: Sequence[Floats], clusters: Clusters = None, alpha: float = ALPHA
) -> list[Interval | None]:
    """Return exp of each contrast of the log odds, with its interval; `n` counts tasks. None where no unit differs from another.

    `solved` and `trials`: tasks × cells, counts. `matrix`: cells × columns, of full column rank. `contrasts`: over those columns.
    Raises NoOdds where all outcomes are equal, where outcomes are separated (some ratio is infinite), where there is one unit only,
    or where the fit does not converge.
    """
    groups = unit_groups(clusters, len(solved))
    units = np.arange(len(solved)) if groups is None else groups
    g, won, total = int(units.max()) + 1, solved.sum(axis=0), trials.sum(axis=0)
    if g < 2:
        raise NoOdds("one task shows no spread")
    if is_separated(won, total, matrix):
        raise NoOdds("outcomes are separated")
    params = np.linalg.lstsq(matrix, np.log((won + 0.5) / (total - won + 0.5)))[0]
    for _ in range(_MAX_STEPS):
        p = scipy.special.expit(matrix @ params)
        try:
            bread = np.linalg.inv(matrix.T @ (matrix * (total * p * (1 - p))[:, None]))
        except np.linalg.LinAlgError:
            raise NoOdds("the logistic model did not converge") from None
        step = bread @ matrix.T @ (won - total * p)
        params = params + step
        if np.abs(step).max() < _CONVERGED:
            break
    else:
        raise NoOdds("the logistic model did not converge")
    scores = np.zeros((g, matrix.shape[1]))
    np.add.at(scores, units, (solved - trials * p) @ matrix)
    quantile, ratios = student_quantile(alpha / 2, g - 1), list[Interval | None]()
    for contrast in contrasts:
        value, error = float(contrast @ params), float(np.linalg.norm(scores @ bread @ contrast)) * math.sqrt(g / (g - 1))
        ends = (math.exp(value - quantile * error), math.exp(min(value + quantile * error, _MAX)))
        ratios.append(None if error < _NO_SPREAD else Interval(math.exp(value), *ends, len(solved)))
    return ratios


def is_separated(solved: Floats, trials: Floats, matrix: Floats) -> bool:
    """Whether logistic regression has no finite estimate: some direction of the parameters fits the outcomes ever better.

    Albert & Anderson 1984, found by linear programming (Konis 2007). `solved` and `trials`: counts per cell.
    """
    always, pure = solved >= trials, (solved >= trials) | (solved <= 0)
    if not pure.any():
        return False
    turned, mixed = matrix[pure] * np.where(always[pure], 1.0, -1.0)[:, None], matrix[~pure]
    equal = {"A_eq": mixed, "b_eq": np.zeros(len(mixed))} if len(mixed) else {}
    found = scipy.optimize.linprog(-turned.sum(axis=0), A_ub=-turned, b_ub=np.zeros(len(turned)), bounds=(-1.0, 1.0), **equal)
    return bool(-found.fun > _NO_DIRECTION)
