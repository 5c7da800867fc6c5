"""Results of a pilot: the noise, the effects that its own size can show, and the sizes that suffice for a margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import scipy

from whichloop.metrics import gate
from whichloop.metrics.power import (
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
"""Maximum possible difference as a share of the mean of both arms."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The difference between two runs of one arm with fresh seeds, at the pilot's size.

    In points for accuracy; in logarithms of the ratio for any other metric.
    """

    arm: str
    sd: float
    band: float
    """Half the width of the band that contains all differences except a share of alpha."""
    at_most: bool
    """Whether the values are upper bounds, because one trial per task does not show the variation within a task."""
    again: float | None = None
    """The difference of the second run."""
    p: float | None = None
    """The p-value of that difference (sign-flip)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The effects of a pair or an arm that the pilot's own size is likely to show; None: no effect, however large."""

    names: tuple[str, ...]
    difference: float | None
    """The smallest difference of a pair, the smallest drop (or rise of an amount) of an arm."""
    margin: float | None
    """The smallest margin within which equal designs are equivalent, or an unchanged arm passes."""


@dataclass(frozen=True, slots=True)
class Size:
    """A sufficient size of a run."""

    repeats: int
    tasks: int
    clusters: int | None
    """The clusters that so many tasks come in, as many to each as in the pilot; None where each task stands for itself."""
    trials: int
    """The trials of all arms together."""
    lm_calls: float | None
    """None if the pilot lacks it; the same holds for the next three fields."""
    tokens: float | None
    cost_usd: float | None
    seconds: float | None
    suite: str | None
    """The name of the enlarged suite; None if no change is needed."""
    enough_tasks: bool
    """Whether the suite has this many tasks or can be enlarged."""


@dataclass(frozen=True, slots=True)
class SizeOption:
    """The sizes for a comparison of the pilot's arms, or for a gate over them."""

    purpose: Purpose
    margin: float
    """The margin as typed: points from 0 to 1 for accuracy, a share for any other metric."""
    level: float
    """The level of one test: alpha divided by the tests of the family."""
    reaches: tuple[Reach, ...]
    sizes: tuple[Size, ...]
    """The sizes, fewest trials first."""

    @property
    def best(self) -> Size | None:
        """The smallest size for which there are enough tasks."""
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
    """Return by how much chance alone moves an arm's metric between two runs of the pilot's size."""
    run_spread = pilot.loops[arm]
    sd = math.sqrt(run_spread.variance(pilot.repeats) / run_spread.units)
    again, p = pilot.second.get(arm, (None, None))
    return Noise(arm, sd, -float(scipy.special.ndtri(pilot.alpha / 2)) * sd, not run_spread.within_known, again, p)


def compare_plan(pilot: Pilot) -> SizeOption:
    """Return sizes that decide each pair with the requested power: they show a difference of the margin, or equivalence."""
    power, level = pilot.request.power, pilot.alpha / (len(pilot.pairs) + len(pilot.same))
    margin = pilot.compare_margin if pilot.request.margin is None else pilot.request.margin

    def reach(names: tuple[str, str], pair: Spread) -> Reach:
        n, k, most = pair.units, pilot.repeats, 1.0 if pilot.scores else MAX_SHARE
        step, equal = pair.step(k), pair.variance(k)
        difference = smallest(lambda d: difference_power(n, d, pair.variance(k, d), level, step=step), most, power)
        within = smallest(lambda m: equivalence_power(n, 0.0, equal, m, level, scores=pair.scores), most, power)
        return Reach(names, difference, within)

    sizes = _sizes(
        pilot,
        [*pilot.pairs.values()],
        lambda pair, repeats: units_to_decide(pair, repeats, margin, level, power),
        REPEATS if all(pair.within_known for pair in pilot.pairs.values()) else (1,),
        arms=len(pilot.values) * (2 if pilot.alone else 1),
    )
    return SizeOption("compare", margin, level, tuple(reach(names, pair) for names, pair in pilot.pairs.items()), sizes)


def gate_plan(pilot: Pilot) -> SizeOption:
    """Return sizes with which a gate over all harmless arms passes with the requested power; baseline and run have one size."""
    arms, default = len(pilot.loops), gate.MARGIN if pilot.scores else gate.MORE
    margin = default if pilot.request.margin is None else pilot.request.margin
    bound, most = (margin, 1.0) if pilot.scores else (math.log1p(margin), math.log(MAX_RATIO))
    alpha, level, target = pilot.alpha, pilot.alpha / arms, pilot.request.power
    power = 1 - (1 - target) / arms  # all arms have to pass

    def reach(arm: str, arm_spread: Spread) -> Reach:
        n, k, scores, step = arm_spread.units, pilot.repeats, arm_spread.scores, arm_spread.step(pilot.repeats)

        def detection_power(harm: float) -> float:
            supposed = arm_spread.variance(k, harm)
            return regression_power(n, -harm, supposed, bound, Levels(level, alpha), scores=scores, step=step)

        within = smallest(lambda m: pass_power(n, 0.0, arm_spread.variance(k), m, alpha, scores=scores), most, power)
        return Reach((arm,), _as_typed(smallest(detection_power, most, target), pilot), _as_typed(within, pilot))

    sizes = _sizes(
        pilot,
        [*pilot.loops.values()],
        lambda arm_spread, repeats: units_to_pass(arm_spread, repeats, bound, alpha, power),
        REPEATS,
        arms=len(pilot.values),
    )
    return SizeOption("gate", margin, level, tuple(reach(arm, arm_spread) for arm, arm_spread in pilot.loops.items()), sizes)


PLANS: Mapping[Purpose, Callable[[Pilot], SizeOption]] = {"compare": compare_plan, "gate": gate_plan}


def _as_typed(amount: float | None, pilot: Pilot) -> float | None:
    """Convert a logarithm of a ratio to the share by which an amount grows."""
    return amount if pilot.scores or amount is None else math.expm1(amount)


def _sizes(
    pilot: Pilot, spreads: Sequence[Spread], units: Callable[[Spread, int], int | None], choices: Sequence[int], *, arms: int
) -> tuple[Size, ...]:
    """Return a size for each number of repeats with which fewer tasks suffice than with a smaller one, the fewest trials first."""
    sizes: list[Size] = []
    for repeats in choices:
        needed = [(units(each, repeats), each) for each in spreads]
        counts = [(tasks_of(n, each), n if each.is_clustered else 0) for n, each in needed if n is not None]
        if len(counts) == len(needed) and (not sizes or max(counts)[0] < sizes[-1].tasks):
            sizes.append(_sized(pilot, *max(counts), repeats, arms))
    return tuple(sorted(sizes, key=lambda size: (size.trials, size.repeats)))


def _sized(pilot: Pilot, tasks: int, clusters: int, repeats: int, arms: int) -> Size:
    price, rounds = pilot.price, arms * tasks * repeats / len(pilot.values)
    suite, enough = pilot.supply.suite_for(tasks)
    return Size(
        repeats=repeats,
        tasks=tasks,
        clusters=clusters or None,
        trials=arms * tasks * repeats,
        lm_calls=None if price.lm_calls is None else rounds * price.lm_calls,
        tokens=None if price.tokens is None else rounds * price.tokens,
        cost_usd=None if price.cost_usd is None else rounds * price.cost_usd,
        seconds=None if price.wall_s is None else rounds * price.wall_s / pilot.at_once,
        suite=suite,
        enough_tasks=enough,
    )
