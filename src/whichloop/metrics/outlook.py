"""What more tasks are likely to decide, of a comparison or a gate that is undecided: assurance (O'Hagan, Stevens & Campbell 2005).

The observed difference is not taken for the true one. Power is averaged over what the run leaves possible: differences by the
normal law around the observed one, and variances by the law of a sample's variance. So the chance that is told is that of a fresh
run of that size, and not one that an observed effect promises. `benchmarks/power_check.py` holds it against simulated fresh runs.

Where a larger run repeats the trials that there were and adds some, as with one seed and a model without chance, only the added
ones are drawn, and the chance is that of the whole given what was seen (predictive power, Spiegelhalter, Freedman & Blackburn
1986). A fresh run of one task more may decide as likely as not where the same run with one task more hardly can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from .power import Levels, Spread, difference_power, equivalence_power, pass_power, tasks_of
from .statistics import ALPHA

CHANCES = (0.5, 0.8)
"""Sizes are sought at which a decision is as likely as not, and likely."""
MAX_TIMES = 100
"""Sizes beyond so many times the tasks that there were are not told."""
GROWTH = 1.25
"""Of the sizes that are tried."""
_QUANTILES = (np.arange(11) + 0.5) / 11
"""Of the normal law, at which it is averaged."""

Decides = Callable[[int, float, float, float], float]
"""Units, mean difference, variance of a unit's difference and the share of units that are drawn, to the chance of a decision."""


@dataclass(frozen=True, slots=True)
class Chance:
    """A size of a run, with the chance that it decides."""

    tasks: int
    """In all."""
    trials: int
    """Of both arms together; for a gate, of the new run."""
    cost_usd: float | None
    """None where no price is known."""
    chance: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """A range of sizes of a fresh run, with the chance that each decides."""

    repeats: int
    fewer: Chance
    """The smaller size: as likely as not."""
    more: Chance
    """The larger one: likely, or where no size that is told is, the largest."""
    equivalent: float | None = None
    """Of two arms, the chance that the larger one shows them to be equivalent; the rest of its chance is that of a difference."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `equivalent` stands there of two arms alone."""
        return {name: value for name, value in asdict(self).items() if name != "equivalent" or value is not None}


@lru_cache(maxsize=1024)  # of a family's pairs many have differed alike, and a run's results are read more than once
def pair_outlook(spread: Spread, *, margin: float, alpha: float = ALPHA, cost_usd: float | None = None) -> Outlook | None:
    """Return what would decide an undecided pair: show a difference, or that it is within the margin. None where too many tasks
    would.

    `alpha`: the level of the test, that of a run of the two alone. `cost_usd`: of one trial, a mean over
    both arms.
    """
    step = spread.step(spread.repeats)

    def is_alike(units: int, difference: float, variance: float, _: float) -> float:
        return equivalence_power(units, difference, variance, margin, alpha, scores=spread.scores)

    def decides(units: int, difference: float, variance: float, drawn: float) -> float:
        power_of_difference = difference_power(units, difference, variance, alpha, step=step)
        return max(power_of_difference, is_alike(units, difference, variance, drawn))

    outlook = _outlook(spread, decides, arms=2, cost_usd=cost_usd)
    if outlook is None:
        return None
    units = round(outlook.more.tasks * spread.units / spread.tasks)
    return replace(outlook, equivalent=assurance(spread, is_alike, units))


def gate_outlook(spread: Spread, *, margin: float, levels: Levels, grows: bool = False) -> Outlook | None:
    """Return what would decide an undecided gate: pass, or show a regression. None where too many tasks would.

    `spread`: the run minus the baseline, turned so that positive is good; `margin` in the same unit. `grows`: a larger run
    repeats these trials and adds to them.
    """
    step = spread.step(spread.repeats)

    def decides(units: int, difference: float, variance: float, drawn: float) -> float:
        worse = difference_power(units, min(difference, 0.0), variance, 2 * levels.regression, step=step, drawn=drawn)
        passes = pass_power(units, difference, variance, margin, levels.passing, scores=spread.scores, drawn=drawn)
        # One shows at low differences, the other at high ones: where both may show, every difference decides.
        return min(1.0, worse + passes)

    return _outlook(spread, decides, arms=1, cost_usd=None, grows=grows)


def assurance(spread: Spread, decides: Decides, units: int, *, grows: bool = False) -> float:
    """Return the chance of a decision by so many units, over what the run leaves possible: of a fresh run, or of this as it
    `grows`."""
    variances, differences = spread.plausible(spread.variance(spread.repeats)), scipy.special.ndtri(_QUANTILES)
    drawn = 1 - spread.units / units if grows else 1.0
    return math.fsum(
        decides(
            units, spread.difference + drawn * math.sqrt(float(variance) / spread.units) * float(quantile), float(variance), drawn
        )
        for variance in variances
        for quantile in differences
    ) / (len(variances) * len(differences))


def _outlook(spread: Spread, decides: Decides, *, arms: int, cost_usd: float | None, grows: bool = False) -> Outlook | None:
    """Return the first sizes with the chances wanted, always more than there were, since those did not decide.

    A run that `grows` does so by a real step, since each further look at the same trials is another chance of a false alarm; and
    its larger size decides, too, where what was seen so far stays as it is, so that whoever takes the advice is not given it again.
    """
    chances: list[Chance] = []
    units = max(spread.units + 1, _rounded_up(GROWTH * spread.units)) if grows else spread.units + 1
    while units <= MAX_TIMES * spread.units and len(chances) < len(CHANCES):
        chance = assurance(spread, decides, units, grows=grows)
        reached = [wanted for wanted in CHANCES[len(chances) :] if chance >= wanted]
        if grows and CHANCES[-1] in reached and decides(units, spread.difference, spread.variance(spread.repeats), 0.0) < 1:
            reached.remove(CHANCES[-1])
        tasks = tasks_of(units, spread)
        trials = arms * tasks * spread.repeats
        chances += [Chance(tasks, trials, None if cost_usd is None else cost_usd * trials, chance)] * len(reached)
        units = max(units + 1, _rounded_up(GROWTH * units))
    return Outlook(spread.repeats, chances[0], chances[-1]) if chances else None


def _rounded_up(number: float) -> int:
    """Return a number rounded up to two digits."""
    step = int(10 ** max(math.floor(math.log10(number)) - 1, 0))
    return math.ceil(number / step) * step
