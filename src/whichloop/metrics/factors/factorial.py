"""Factorial experiments over tasks: main effects and two-factor interactions, with intervals paired by task.

Every task runs in every cell, so that an effect is one contrast of cell means per task (see `layout`), and its estimate the mean of
these over tasks: the intervals, tests and clusters of `statistics` apply as they do to a pair of arms.

Odds ratios of 0/1 scores over the cells of a factorial experiment: a logistic model that knows of clusters.

Generalized estimating equations (Liang & Zeger 1986) with working independence: the estimate is that of plain logistic regression,
its covariance the robust one over units of inference, times G/(G-1) for G units; intervals are Student's with G-1 degrees of
freedom on the log scale. What is estimated is the population's odds, averaged over tasks, not the odds of any one task.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from whichloop._extras import MissingExtra, needed_by
from whichloop.metrics.paired import PairDecision, PairedFlip, judge_family
from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, Clusters, Floats, Interval, PairVerdict, interval_json, unit_groups, verdict
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, task_values
from whichloop.protocol.values import counted

from .layout import Cell, Contrast, Factor, Layout

_NO_DIRECTION = 1e-7
"""An optimum of the linear program that is no more than a rounding error."""


_NO_SPREAD = 1e-6
"""A standard error of log odds that is no more than a rounding error of the fit."""
_MAX = 700.0
"""Log odds of which there is still a number."""


class NoOdds(ValueError):
    """There are no odds ratios; says why."""


def odds_ratios(
    solved: Floats, trials: Floats, matrix: Floats, contrasts: Sequence[Floats], clusters: Clusters = None, alpha: float = ALPHA
) -> tuple[Interval | None, ...]:
    """Return exp of each contrast of the log odds, with its interval; `n` counts tasks. None where no unit differs from another.

    `solved` and `trials`: tasks × cells, counts. `matrix`: cells × columns, of full column rank. `contrasts`: over those columns.
    Raises NoOdds where all outcomes are equal, where outcomes are separated (some ratio is infinite), where there is one unit only,
    or where the fit does not converge.
    """
    groups = unit_groups(clusters, len(solved))
    units = np.arange(len(solved)) if groups is None else groups
    g = int(units.max()) + 1
    if g < 2:
        raise NoOdds("one task shows no spread")
    if is_separated(solved.sum(axis=0), trials.sum(axis=0), matrix):
        raise NoOdds("outcomes are separated")
    params, covariance = _fit(_summed(solved, units, g), _summed(trials, units, g), matrix)
    quantile = float(scipy.special.stdtrit(g - 1, 1 - alpha / 2))
    ratios: list[Interval | None] = []
    for contrast in contrasts:
        value = float(contrast @ params)
        error = math.sqrt(max(float(contrast @ covariance @ contrast), 0.0) * g / (g - 1))
        ratios.append(None if error < _NO_SPREAD else _ratio(value, quantile * error, len(solved)))
    return tuple(ratios)


def _ratio(value: float, half: float, n: int) -> Interval:
    return Interval(math.exp(value), math.exp(value - half), math.exp(min(value + half, _MAX)), n)


def is_separated(solved: Floats, trials: Floats, matrix: Floats) -> bool:
    """Whether logistic regression has no finite estimate: some direction of the parameters fits the outcomes ever better.

    Albert & Anderson 1984, found by linear programming (Konis 2007). `solved` and `trials`: counts per cell.
    """
    always, never = solved >= trials, solved <= 0
    signs = np.where(always, 1.0, -1.0)[always | never]
    pure, mixed = matrix[always | never] * signs[:, None], matrix[~(always | never)]
    if not len(pure):
        return False
    solution = scipy.optimize.linprog(
        -pure.sum(axis=0),
        A_ub=-pure,
        b_ub=np.zeros(len(pure)),
        A_eq=mixed if len(mixed) else None,
        b_eq=np.zeros(len(mixed)) if len(mixed) else None,
        bounds=(-1.0, 1.0),
        method="highs",
    )
    return bool(-solution.fun > _NO_DIRECTION)


def _summed(counts: Floats, units: NDArray[np.int64], g: int) -> Floats:
    """Return units × cells: trials of one unit and cell share their row, so that their sum is all that the estimate needs."""
    sums = np.zeros((g, counts.shape[1]))
    np.add.at(sums, units, counts)
    return sums


def _fit(solved: Floats, trials: Floats, matrix: Floats) -> tuple[Floats, Floats]:
    """Return the parameters and their robust covariance."""
    try:
        with needed_by("an odds ratio"):
            from statsmodels.genmod import families, generalized_estimating_equations  # a second, and few commands need it
    except MissingExtra as error:
        raise NoOdds(str(error)) from None

    unit, cell = np.nonzero(trials)
    weights = trials[unit, cell]
    gee = generalized_estimating_equations.GEE
    model = gee(solved[unit, cell] / weights, matrix[cell], unit, family=families.Binomial(), weights=weights)
    total, won = trials.sum(axis=0), solved.sum(axis=0)
    # Without a start, GEE would begin with a fit of its own, and that one's warnings.
    start = np.linalg.lstsq(matrix, np.log((won + 0.5) / (total - won + 0.5)))[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = model.fit(start_params=start)
    except (Warning, ArithmeticError, np.linalg.LinAlgError) as error:
        raise NoOdds(f"the logistic model did not converge ({type(error).__name__})") from None
    params, covariance = np.asarray(fitted.params), np.asarray(fitted.cov_params())
    if not fitted.converged or not (np.isfinite(params).all() and np.isfinite(covariance).all()):
        raise NoOdds("the logistic model did not converge")
    return params, covariance


EFFECT_METRICS = ("accuracy", "steps", "lm_calls", "tokens", "cost_usd")
"""What effects are computed on unless others are asked for."""
_DECIMALS = 12
"""Decimals of a contrast that count, beside the largest mean."""


@dataclass(frozen=True, slots=True)
class Conditional:
    """What a change does where another factor has one of its values."""

    change: str
    """`extract: true → false`."""
    given: str
    """`on_parse_error = observe`."""
    difference: Interval
    """In the metric's unit, averaged over all other factors, at confidence 1 - alpha."""
    verdict: PairVerdict
    """Of this change by itself, at alpha; it is adjusted for no other effect."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        verdict = {"verdict": self.verdict.word, "within_margin": self.verdict.within_margin}
        return {"change": self.change, "given": self.given, "difference": self.difference.as_dict(), **verdict}


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
    """PairVerdict on the change; for an interaction, on both changes together against the sum of each alone."""
    odds_ratio: Interval | None
    """The odds ratio of accuracy, from a logistic model; for an interaction the ratio of two odds ratios. None if absent."""
    aliases: tuple[str, ...] = ()
    """Interactions that this design cannot tell from this one; with a leading `-` those that enter it negatively."""
    conditional: tuple[Conditional, ...] = ()
    """What either change does at both values of the other factor, for an interaction that is known by itself."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "term": self.term,
            "kind": self.kind,
            "factors": list(self.factors),
            "metric": self.metric,
            "profile": self.profile,
            "difference": self.difference.as_dict(),
            "p": self.p,
            "p_holm": self.p_holm,
            "level": self.level,
            "margin": self.margin,
            "verdict": self.verdict.word,
            "within_margin": self.verdict.within_margin,
            "odds_ratio": interval_json(self.odds_ratio),
            "aliases": list(self.aliases),
            "conditional": [effect.to_json() for effect in self.conditional],
        }


@dataclass(frozen=True, slots=True)
class FactorEffects:
    """All effects of an experiment, and what to keep in mind when reading them."""

    effects: tuple[Effect, ...]
    """Ordered by metric as asked for, then by profile."""
    notes: tuple[str, ...]
    """Tasks that had to be left out, and odds ratios that there are not."""


# --- effects from records ---


def effects(
    groups: Mapping[str, Mapping[Cell, Sequence[Record]]],
    design: Layout,
    *,
    metrics: Sequence[str] = EFFECT_METRICS,
    alpha: float = ALPHA,
    margin: float = MARGIN,
) -> FactorEffects:
    """Return the effects of a design on each metric; `groups`: profile → cell → records.

    Only tasks with a known value in every cell count. For each metric all effects, under all profiles, are one family (Holm).
    `margin`: as in a comparison, of any metric but a share, such as accuracy, a share of its mean.
    """
    found_effects: list[Effect] = []
    notes: list[str] = []
    for metric in metrics:
        tested: list[_Tested] = []
        for profile, cells in groups.items():
            observed = _observed(metric, [cells.get(cell, ()) for cell in design.cells])
            ratios: Sequence[Interval | None] = [None] * len(design.contrasts)
            if metric == PRIMARY:
                ratios, odds_notes = _odds(observed, design, alpha)
                notes += [f"{profile}: {note}" for note in (*observed.left_out(), *odds_notes)]
            if observed.clusters:
                tested += [
                    _test(metric, profile, observed, *pair, alpha, margin) for pair in zip(design.contrasts, ratios, strict=True)
                ]
        found_effects += _family(tested, design.factors, alpha)
    return FactorEffects(tuple(found_effects), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Observed:
    """One metric under one profile, over the tasks whose value is known in every cell."""

    clusters: tuple[str, ...]
    """One for each task."""
    values: tuple[tuple[Sequence[float], ...], ...]
    """Task → cell → one value per repeat."""
    means: Floats
    """Tasks × cells."""
    known_trials: int
    """Tasks with a value in at least one cell."""

    @property
    def is_binary(self) -> bool:
        return all(value in (0.0, 1.0) for task in self.values for cell in task for value in cell)

    def left_out(self) -> list[str]:
        missing = self.known_trials - len(self.clusters)
        task_count, where = counted(self.known_trials, "task"), "not scored in every cell and"
        sentence = counted(
            missing, f"of {task_count} was {where} counts in no effect.", f"of {task_count} were {where} count in no effect."
        )
        return [sentence] if missing else []


def _observed(metric: str, cells: Sequence[Sequence[Record]]) -> _Observed:
    cell_values = [task_values(records, METRICS[metric]) for records in cells]
    known_tasks = {task for cell in cell_values for task in cell.values}
    tasks = [task for task in cell_values[0].values if all(task in cell.values for cell in cell_values)]
    values = tuple(tuple(cell.values[task] for cell in cell_values) for task in tasks)
    means = np.array([[math.fsum(cell) / len(cell) for cell in task] for task in values], dtype=np.float64)
    return _Observed(tuple(cell_values[0].clusters[task] for task in tasks), values, means, len(known_tasks))


@dataclass(frozen=True, slots=True)
class _Tested:
    """An effect before its family is known."""

    contrast: Contrast
    metric: str
    profile: str
    flip: PairedFlip
    margin: float
    odds_ratio: Interval | None
    conditional: tuple[PairDecision, ...]


def _test(
    metric: str, profile: str, observed: _Observed, contrast: Contrast, odds_ratio: Interval | None, alpha: float, margin: float
) -> _Tested:
    means = observed.means
    bound = margin if metric in SHARES else margin * float(means.mean())
    flips = [_flip(metric, observed, condition.weights) for condition in contrast.conditional]
    conditional = tuple(decision for flip in flips for decision in judge_family([(flip, bound)], alpha))
    return _Tested(contrast, metric, profile, _flip(metric, observed, contrast.weights), bound, odds_ratio, conditional)


def _flip(metric: str, observed: _Observed, weights: Floats) -> PairedFlip:
    return PairedFlip(_contrasts(observed.means, weights), observed.clusters, reach=_reach(weights) if metric in SHARES else None)


def _contrasts(means: Floats, weights: Floats) -> Floats:
    """Return one contrast per task, without rounding errors: equal contrasts are equal numbers."""
    scale = float(np.abs(means).max()) or 1.0
    return np.round(np.asarray(means @ weights, dtype=np.float64) / scale, _DECIMALS) * scale


def _reach(weights: Floats) -> float:
    """Return the largest contrast that cell means in [0, 1] can give; the weights add up to 0."""
    return float(np.abs(weights).sum()) / 2


def _family(tested: Sequence[_Tested], factors: Sequence[Factor], alpha: float) -> list[Effect]:
    """Return the effects on one metric, their p values adjusted for each other."""
    effects_of_metric = []
    for test, decision in zip(tested, judge_family([(test.flip, test.margin) for test in tested], alpha), strict=True):
        effects_of_metric.append(
            Effect(
                term=test.contrast.term(factors),
                kind=test.contrast.kind,
                factors=tuple(factors[change.factor].name for change in test.contrast.changes),
                metric=test.metric,
                profile=test.profile,
                difference=decision.difference,
                p=decision.p,
                p_holm=decision.p_holm,
                level=decision.level,
                margin=test.margin,
                verdict=_verdict(test.metric, decision, alpha),
                odds_ratio=test.odds_ratio,
                aliases=test.contrast.aliases,
                conditional=tuple(
                    Conditional(
                        condition.change.text(factors),
                        _at(factors[condition.factor], condition.level),
                        conditional.difference,
                        _verdict(test.metric, conditional, alpha),
                    )
                    for condition, conditional in zip(test.contrast.conditional, test.conditional, strict=True)
                ),
            )
        )
    return effects_of_metric


def _verdict(metric: str, decision: PairDecision, alpha: float) -> PairVerdict:
    advantage = decision.difference.value if metric in GAINS else -decision.difference.value
    return verdict(advantage, decision.p_holm, decision.p_equivalence_holm, alpha)


def _at(factor: Factor, level: int) -> str:
    return f"{factor.name} = {factor.levels[level]}"


# --- odds ratios ---


def _odds(observed: _Observed, design: Layout, alpha: float) -> tuple[Sequence[Interval | None], list[str]]:
    """Return one odds ratio per contrast; where there are none, why. A model without interactions is fitted where the one with them
    has no finite estimate."""
    none: list[Interval | None] = [None] * len(design.contrasts)
    if not observed.clusters:
        return none, []
    if not observed.is_binary:
        return none, ["no odds ratios: scores are graded."]
    solved = np.array([[math.fsum(cell) for cell in task] for task in observed.values])
    trials = np.array([[float(len(cell)) for cell in task] for task in observed.values])
    mains = [contrast for contrast in design.contrasts if contrast.kind == "main"]
    try:
        codes = [contrast.code for contrast in design.contrasts]
        return odds_ratios(solved, trials, design.matrix, codes, observed.clusters, alpha), []
    except NoOdds as error:
        reason = _why(solved.sum(axis=0) / trials.sum(axis=0), design) or str(error)
    try:
        columns = design.main_columns
        ratios = odds_ratios(
            solved, trials, design.matrix[:, :columns], [c.code[:columns] for c in mains], observed.clusters, alpha
        )
    except NoOdds:
        return none, [f"no odds ratios: {reason}."]
    return [*ratios, *none[len(ratios) :]], [
        f"odds ratios are those of a model without interactions, since with them some are infinite: {reason}."
    ]


def _why(shares: Floats, design: Layout) -> str:
    """Say which level or cell has only one kind of outcome, where one has, so that no finite odds ratio exists."""
    for share, word in ((1.0, "solved"), (0.0, "failed")):
        pure = shares == share
        if pure.all():
            return f"every trial was {word}"
        for f, factor in enumerate(design.factors):
            for level in range(len(factor.levels)):
                if all(pure[i] for i, cell in enumerate(design.cells) if cell[f] == level):
                    return f"every trial with {_at(factor, level)} was {word}"
    count = int(np.isin(shares, (0.0, 1.0)).sum())
    return f"in {count:,} of {counted(len(shares), 'cell')} all trials ended alike" if count else ""
