"""What to doubt about a pilot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import scipy

from whichloop.metrics.caveats import Caveat
from whichloop.metrics.power import UNSEEN
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.folders import run_name

from .pilot import Pilot

MIN_UNITS = 50
"""Independent tasks, or clusters of tasks, from which on a variance is reliable."""


def warnings(pilot: Pilot) -> Iterator[Caveat]:
    """Yield the warnings of a pilot."""
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
    if pilot.supply.tasks is None:
        yield Caveat("suite unknown")
    unknown = tuple(arm.info.arm for arm in run.comparison.arms if arm.summary.means["cost_usd"] is None)
    if unknown and settings.models != (SCRIPTED,):
        yield Caveat("no dollars", unknown)


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
    if "compare" not in pilot.request.purposes:
        return
    if pilot.is_alone:
        yield Caveat("no pair")
    for pair, spread in pilot.pairs.items():
        if spread.variance(pilot.repeats) <= spread.floor:
            of = {"of": spread.units, "unit": "cluster" if spread.is_clustered else "task"}
            yield Caveat("hardly apart", tuple(pair), {"seen": spread.unusual, "assumed": min(UNSEEN, spread.units), **of})
            return
