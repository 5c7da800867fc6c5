"""What a pilot says: the effects that its own size can show, and the sizes that suffice for a margin."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import scipy

from whichloop.datasets.generating import MAX_SIZE
from whichloop.experiments.compare.results import Results
from whichloop.metrics import gate
from whichloop.metrics.caveats import Caveat, in_order
from whichloop.metrics.power import (
    UNSEEN,
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
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.folders import run_name

from .pilot import MAX_RATIO, Pilot, Purpose, SizeRequest, read_pilot

REPEATS = (1, 2, 3, 5, 10)
MAX_SHARE = 2.0
"""Maximum possible difference as a share of the mean of both arms."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size of a run; what it takes is None where the pilot does not tell it."""

    repeats: int
    tasks: int
    clusters: int | None
    """The clusters that so many tasks come in, as many to each as in the pilot; None where each task stands for itself."""
    trials: int
    """Of all arms together."""
    lm_calls: float | None
    tokens: float | None
    cost_usd: float | None
    seconds: float | None
    suite: str | None
    """The name of the suite made as large; None if no change is needed."""
    enough_tasks: bool
    """Whether the suite has this many tasks or can be made as large."""


@dataclass(frozen=True, slots=True)
class SizePlan:
    """The sizes for a comparison of the pilot's arms, or for a gate over them."""

    purpose: Purpose
    margin: float
    """In points from 0 to 1 of a share such as accuracy, else a share."""
    level: float
    """Of one test: alpha over the tests of the family."""
    reaches: tuple[Mapping[str, Any], ...]
    """Of each pair, or arm (`names`), what the pilot's own size is likely to show; None: nothing, however large.

    `difference`: the smallest difference of a pair, the smallest drop (or rise of an amount) of an arm. `margin`: the smallest
    within which equal designs are equivalent, or an unchanged arm passes.
    """
    sizes: tuple[Size, ...]
    """Those that suffice, the fewest trials first."""

    @property
    def best(self) -> Size | None:
        """The fewest trials for which there are enough tasks."""
        return next((size for size in self.sizes if size.enough_tasks), None)

    def to_json(self) -> dict[str, Any]:
        head = {"for": self.purpose, "margin": self.margin, "level": self.level, "reach": self.reaches}
        return head | {"sizes": [asdict(each) for each in self.sizes], "best": self.best and asdict(self.best)}


@dataclass(frozen=True, slots=True)
class Sizing:
    pilot: Pilot
    plans: tuple[SizePlan, ...]
    warnings: tuple[Caveat, ...]
    same: tuple[tuple[str, ...], ...]
    """Loops or arms that did the same in every trial, of which no size is told."""
    seen: Size | None
    """The number of tasks that the pilot's own verdict names for the difference seen, with the pilot's repeats."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that `report --size --json` prints; its names are stable."""
        pilot, manifest = self.pilot, self.pilot.run.manifest
        request = pilot.request
        present = {arm.info.without_profile for arm in pilot.run.comparison.arms}
        return {
            "run": str(pilot.run.folder),
            "metric": request.metric,
            "alpha": pilot.alpha,
            "power": request.power,
            "pilot": {"tasks": pilot.tasks, "clusters": pilot.clusters, "repeats": pilot.repeats},
            "suite": {"name": manifest.suite.name, "tasks": pilot.available, "split": manifest.settings.split},
            "loops": [loop for loop in request.loops if loop in present],
            "profiles": list(request.profiles),
            "seen": self.seen and asdict(self.seen),
            "plans": [plan.to_json() for plan in self.plans],
            "same": [list(names) for names in self.same],
            "warnings": [each.to_json() for each in self.warnings],
        }


def size(run: Results, request: SizeRequest) -> Sizing:
    """Compute the size that a run needs from a pilot. Raises what `read_pilot` raises."""
    pilot = read_pilot(run, request)
    is_comparison, decision = "compare" in request.purposes, pilot.run.verdict.decision
    likely = decision.tasks if decision and is_comparison and request.metric == PRIMARY else None
    purposes = [purpose for purpose in request.purposes if purpose == "gate" or pilot.pairs]
    groups = [tuple(same) for same in pilot.run.same_loops]
    loops = {arm.info.arm: arm.info.variant for arm in pilot.run.comparison.arms}
    pairs = [pair for pair in pilot.same if not any({loops[arm] for arm in pair} <= {*group} for group in groups)]
    return Sizing(
        pilot,
        tuple(_compare_plan(pilot) if purpose == "compare" else _gate_plan(pilot) for purpose in purposes),
        in_order(_warnings(pilot)),
        (*groups, *pairs) if is_comparison else (),
        None if likely is None else _sized(pilot, likely, 0, pilot.repeats),
    )


def _compare_plan(pilot: Pilot) -> SizePlan:
    """Return sizes that decide each pair with the power wanted: they show a difference of the margin, or equivalence."""
    power, level, repeats = pilot.request.power, pilot.alpha / (len(pilot.pairs) + len(pilot.same)), pilot.repeats
    margin = pilot.run.manifest.settings.margin if pilot.request.margin is None else pilot.request.margin
    most = 1.0 if pilot.scores else MAX_SHARE

    def reach(names: tuple[str, str], pair: Spread) -> Mapping[str, Any]:
        n, step, equal = pair.units, pair.step(repeats), pair.variance(repeats)
        difference = smallest(lambda d: difference_power(n, d, pair.variance(repeats, d), level, step=step), most, power)
        within = smallest(lambda m: equivalence_power(n, 0.0, equal, m, level, scores=pair.scores), most, power)
        return {"names": names, "difference": difference, "margin": within}

    pairs = [*pilot.pairs.values()]
    choices = REPEATS if all(pair.within_known for pair in pairs) else (1,)
    sizes = _sizes(pilot, pairs, lambda pair, k: units_to_decide(pair, k, margin, level, power), choices)
    return SizePlan("compare", margin, level, tuple(reach(names, pair) for names, pair in pilot.pairs.items()), sizes)


def _gate_plan(pilot: Pilot) -> SizePlan:
    """Return sizes with which a gate over all harmless arms passes with the power wanted; baseline and run have one size."""
    default = gate.MARGIN if pilot.scores else gate.MORE
    margin = default if pilot.request.margin is None else pilot.request.margin
    bound, most = (margin, 1.0) if pilot.scores else (math.log1p(margin), math.log(MAX_RATIO))
    alpha, level, target, k = pilot.alpha, pilot.alpha / len(pilot.loops), pilot.request.power, pilot.repeats
    power = 1 - (1 - target) / len(pilot.loops)  # all arms have to pass

    def reach(arm: str, own: Spread) -> Mapping[str, Any]:
        def detection(harm: float) -> float:
            supposed, levels = own.variance(k, harm), Levels(level, alpha)
            return regression_power(own.units, -harm, supposed, bound, levels, scores=own.scores, step=own.step(k))

        within = smallest(lambda m: pass_power(own.units, 0.0, own.variance(k), m, alpha, scores=own.scores), most, power)
        return {"names": (arm,), "difference": as_typed(smallest(detection, most, target)), "margin": as_typed(within)}

    def as_typed(amount: float | None) -> float | None:
        return amount if pilot.scores or amount is None else math.expm1(amount)

    loops = [*pilot.loops.values()]
    sizes = _sizes(pilot, loops, lambda own, k: units_to_pass(own, k, bound, alpha, power), REPEATS)
    return SizePlan("gate", margin, level, tuple(reach(arm, own) for arm, own in pilot.loops.items()), sizes)


def _sizes(
    pilot: Pilot, spreads: Sequence[Spread], units: Callable[[Spread, int], int | None], choices: Sequence[int]
) -> tuple[Size, ...]:
    """Return a size for each number of repeats with which fewer tasks suffice than with a smaller one, the fewest trials first."""
    sizes: list[Size] = []
    for repeats in choices:
        needed = [(units(each, repeats), each) for each in spreads]
        counts = [(tasks_of(n, each), n if each.is_clustered else 0) for n, each in needed if n is not None]
        if len(counts) == len(needed) and (not sizes or max(counts)[0] < sizes[-1].tasks):
            sizes.append(_sized(pilot, *max(counts), repeats))
    return tuple(sorted(sizes, key=lambda size: (size.trials, size.repeats)))


def _sized(pilot: Pilot, tasks: int, clusters: int, repeats: int) -> Size:
    """Return a size with what it takes, and the suite that has so many tasks."""
    trials = tasks * repeats
    cost = {name: None if each is None else trials * each for name, each in pilot.price.items()}
    if cost["seconds"] is not None:
        cost["seconds"] /= pilot.at_once
    suite, is_enough = None, pilot.available is None or tasks <= pilot.available
    larger = math.ceil(tasks * pilot.size_per_task)
    if not is_enough and pilot.suite is not None and larger <= MAX_SIZE:
        suite, is_enough = str(replace(pilot.suite, options={**pilot.suite.options, "size": larger})), True
    return Size(repeats, tasks, clusters or None, len(pilot.values) * trials, **cost, suite=suite, enough_tasks=is_enough)


# --- what to doubt about a pilot ---

MIN_UNITS = 50
"""Independent tasks, or clusters of tasks, from which on a variance is reliable."""


def _warnings(pilot: Pilot) -> Iterator[Caveat]:
    run, settings = pilot.run, pilot.run.manifest.settings
    if pilot.dead:
        yield Caveat("dead arm", tuple(pilot.dead))
    errored = sum(arm.summary.errored for arm in run.comparison.arms)
    if not run.is_complete:
        yield Caveat("incomplete", ("pilot",), {"trials": len(run.records), "of": run.scheduled})
    if run.comparison.invalid:
        yield Caveat("invalid", ("pilot",), {"run": shlex.quote(run_name(run.folder))})
    if errored:
        why = {reason: n for arm in run.comparison.arms for reason, n in arm.summary.errored_reasons.items()}
        yield Caveat("errored trials", ("pilot",), {"trials": errored, "of": len(run.records), "reasons": why})
    yield from _small(pilot)
    yield from _variances(pilot)
    if any(arm.info.model == SCRIPTED for arm in run.comparison.arms):
        yield Caveat("scripted model")
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        yield Caveat("recording")


def _small(pilot: Pilot) -> Iterator[Caveat]:
    """Yield how unsure a small pilot is, and what clusters leave of its tasks."""
    smallest = min(pilot.loops.values(), key=lambda spread: spread.units)
    of = {"units": smallest.units, "unit": "cluster" if smallest.is_clustered else "task"}
    if are_too_few_to_plan(pilot.clusters or pilot.tasks, pilot.alpha, is_clustered=pilot.clusters is not None):
        yield Caveat("few to plan", (), {**of, "needed": MIN_UNITS})
    elif smallest.units < MIN_UNITS:
        df = smallest.units - 1
        yield Caveat("small pilot", (), {**of, "factor": df / float(scipy.special.chdtri(df, 0.95))})
    clustered = [spread for spread in pilot.pairs.values() if spread.is_clustered]
    if clustered:
        worst = max(clustered, key=lambda spread: spread.design_effect)
        independent = worst.tasks / max(worst.design_effect, 1.0)
        yield Caveat("clusters", (), {"tasks": worst.tasks, "units": worst.units, "independent": independent})


def _variances(pilot: Pilot) -> Iterator[Caveat]:
    """Yield what of the variances was not seen, and is assumed."""
    once = tuple(arm for arm, spread in pilot.loops.items() if not spread.within_known)
    constant = tuple(arm for arm in pilot.loops if all(len(set(each)) == 1 for each in pilot.values[arm].values.values()))
    if once:
        yield Caveat("ran once", once)
    elif constant:
        tasks = pilot.loops[constant[0]].tasks
        yield Caveat("never varied", constant, {"assumed": min(UNSEEN, tasks), "of": tasks})
    if "compare" in pilot.request.purposes and not pilot.pairs and not pilot.same:
        yield Caveat("no pair")
