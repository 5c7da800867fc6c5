"""What follows from a pilot: what chance alone does, what its own size can show, and what sizes suffice for a margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scipy import stats

from loopbench.metrics import gate
from loopbench.metrics.power import (
    Levels,
    Spread,
    difference_power,
    equivalence_power,
    pass_power,
    regression_power,
    smallest,
    tasks_of,
    units_to_decide,
    units_to_pass,
)

from .pilot import MAX_RATIO, Pilot, Purpose

REPEATS = (1, 2, 3, 5, 10)
MAX_SHARE = 2.0
"""A difference is never more, as a share of the mean of both arms."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How much two runs of one arm with fresh seeds differ, at the pilot's size.

    Of accuracy in points; of any other metric in logarithms of the ratio.
    """

    arm: str
    sd: float
    band: float
    """Half the width of the band that holds all differences but a share of alpha."""
    at_most: bool
    """One trial per task: what varies within a task is not known, and bounded."""
    again: float | None = None
    """What the second run did differ by."""
    p: float | None = None
    """That this is chance (sign-flip)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the pilot's own size is likely to show of a pair, or of an arm; None: nothing, however large."""

    names: tuple[str, ...]
    difference: float | None
    """The smallest difference of a pair, the smallest drop (or rise of an amount) of an arm."""
    margin: float | None
    """The smallest margin within which equal designs are equivalent, or an unchanged arm passes."""


@dataclass(frozen=True, slots=True)
class Size:
    """One size of a run that is large enough."""

    repeats: int
    tasks: int
    trials: int
    """Of all arms."""
    lm_calls: float | None
    """None where the pilot does not tell, and so with what follows."""
    tokens: float | None
    cost_usd: float | None
    seconds: float | None
    suite: str | None
    """The suite's name where it has to be made larger for it."""
    enough_tasks: bool
    """The suite has so many, or can be made so large."""


@dataclass(frozen=True, slots=True)
class SizeOption:
    """What a comparison of the pilot's arms, or a gate over them, takes."""

    purpose: Purpose
    margin: float
    """As it is typed: of accuracy in points from 0 to 1, of any other metric a share."""
    level: float
    """Of one test: alpha over the tests of the family."""
    reaches: tuple[Reach, ...]
    sizes: tuple[Size, ...]
    """The fewest trials first."""

    @property
    def best(self) -> Size | None:
        """The smallest for which there are tasks."""
        return next((size for size in self.sizes if size.enough_tasks), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "for": self.purpose,
            "margin": self.margin,
            "level": self.level,
            "reach": [asdict(reach) for reach in self.reaches],
            "sizes": [asdict(size) for size in self.sizes],
            "best": None if self.best is None else asdict(self.best),
        }


def noise(pilot: Pilot, arm: str) -> Noise:
    varies = pilot.loops[arm]
    sd = math.sqrt(varies.variance(pilot.repeats) / varies.units)
    again, p = pilot.second.get(arm, (None, None))
    return Noise(arm, sd, float(stats.norm.isf(pilot.alpha / 2)) * sd, not varies.within_known, again, p)


def compare_plan(pilot: Pilot) -> SizeOption:
    """Each pair is decided with the power wanted: a difference of the margin is shown, and equal designs are equivalent."""
    power, level = pilot.request.power, pilot.alpha / len(pilot.pairs)
    margin = pilot.compare_margin if pilot.request.margin is None else pilot.request.margin

    def reach(names: tuple[str, str], varies: Spread) -> Reach:
        n, k, most = varies.units, pilot.repeats, 1.0 if pilot.scores else MAX_SHARE
        step, equal = varies.step(k), varies.variance(k)
        shown = smallest(lambda d: difference_power(n, d, varies.variance(k, d), level, step=step), most, power)
        within = smallest(lambda m: equivalence_power(n, 0.0, equal, m, level, scores=varies.scores), most, power)
        return Reach(names, shown, within)

    sizes = _sizes(
        pilot,
        [*pilot.pairs.values()],
        lambda varies, repeats: units_to_decide(varies, repeats, margin, level, power),
        REPEATS if all(varies.within_known for varies in pilot.pairs.values()) else (1,),
        arms=len(pilot.values) * (2 if pilot.alone else 1),
    )
    return SizeOption("compare", margin, level, tuple(reach(names, varies) for names, varies in pilot.pairs.items()), sizes)


def gate_plan(pilot: Pilot) -> SizeOption:
    """A gate over all arms passes with the power wanted where no harm is done; baseline and run are of one size."""
    arms, default = len(pilot.loops), gate.MARGIN if pilot.scores else gate.MORE
    margin = default if pilot.request.margin is None else pilot.request.margin
    bound, most = (margin, 1.0) if pilot.scores else (math.log1p(margin), math.log(MAX_RATIO))
    alpha, level, wanted = pilot.alpha, pilot.alpha / arms, pilot.request.power
    power = 1 - (1 - wanted) / arms  # all arms have to pass

    def reach(arm: str, varies: Spread) -> Reach:
        n, k, scores, step = varies.units, pilot.repeats, varies.scores, varies.step(pilot.repeats)

        def caught(harm: float) -> float:
            supposed = varies.variance(k, harm)
            return regression_power(n, -harm, supposed, bound, Levels(level, alpha), scores=scores, step=step)

        passes = smallest(lambda m: pass_power(n, 0.0, varies.variance(k), m, alpha, scores=scores), most, power)
        return Reach((arm,), _as_typed(smallest(caught, most, wanted), pilot), _as_typed(passes, pilot))

    sizes = _sizes(
        pilot,
        [*pilot.loops.values()],
        lambda varies, repeats: units_to_pass(varies, repeats, bound, alpha, power),
        REPEATS,
        arms=len(pilot.values),
    )
    return SizeOption("gate", margin, level, tuple(reach(arm, varies) for arm, varies in pilot.loops.items()), sizes)


PLANS: Mapping[Purpose, Callable[[Pilot], SizeOption]] = {"compare": compare_plan, "gate": gate_plan}


def _as_typed(amount: float | None, pilot: Pilot) -> float | None:
    """A logarithm of a ratio as the share by which an amount grows."""
    return amount if pilot.scores or amount is None else math.expm1(amount)


def _sizes(
    pilot: Pilot, spreads: Sequence[Spread], units: Callable[[Spread, int], int | None], choices: Sequence[int], *, arms: int
) -> tuple[Size, ...]:
    """A size for each number of repeats with which some number of tasks suffices, the fewest trials first."""
    made = []
    for repeats in choices:
        found = [(units(varies, repeats), varies) for varies in spreads]
        tasks = [tasks_of(n, varies) for n, varies in found if n is not None]
        if len(tasks) == len(found):
            made.append(_sized(pilot, max(tasks), repeats, arms))
    return tuple(sorted(made, key=lambda size: (size.trials, size.repeats)))


def _sized(pilot: Pilot, tasks: int, repeats: int, arms: int) -> Size:
    price, rounds = pilot.price, arms * tasks * repeats / len(pilot.values)
    suite, enough = pilot.supply.suite_for(tasks)
    return Size(
        repeats=repeats,
        tasks=tasks,
        trials=arms * tasks * repeats,
        lm_calls=None if price.lm_calls is None else rounds * price.lm_calls,
        tokens=None if price.tokens is None else rounds * price.tokens,
        cost_usd=None if price.cost_usd is None else rounds * price.cost_usd,
        seconds=None if price.wall_s is None else rounds * price.wall_s / pilot.in_flight,
        suite=suite,
        enough_tasks=enough,
    )
