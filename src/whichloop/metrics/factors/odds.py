"""Odds ratios of 0/1 scores over the cells of a factorial experiment: a logistic model that knows of clusters.

Generalized estimating equations (Liang & Zeger 1986) with working independence: the estimate is that of plain logistic regression,
its covariance the robust one over units of inference, times G/(G-1) for G units; intervals are Student's with G-1 degrees of
freedom on the log scale. What is estimated is the population's odds, averaged over tasks, not the odds of any one task.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from whichloop._extras import MissingExtra, needed_by

from ..statistics import ALPHA, Clusters, Floats, Interval, unit_groups

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
