"""What to doubt about a pilot: warnings, each of a kind with a fixed text and its numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import scipy

from whichloop.metrics.comparison import Caveat
from whichloop.metrics.power import UNSEEN
from whichloop.metrics.statistics import NO_SPREAD, are_too_few_to_plan
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.text.numbers import listed_names

from .pilot import Pilot

MIN_UNITS = 50
"""Independent tasks, or clusters of tasks, from which on a variance is reliable."""


def warnings(pilot: Pilot) -> Iterator[Caveat]:
    """Yield the warnings of a pilot, what makes its numbers invalid first."""
    run, settings = pilot.run, pilot.run.manifest.settings
    if pilot.dead:
        yield Caveat("dead arm", f"left out, crashed always or never asked its model: {listed_names(pilot.dead)}")
    for name, each in (("pilot", run), *([] if pilot.second is None else [("second run", pilot.second)])):
        errored = sum(arm.summary.errored for arm in each.comparison.arms)
        if not each.is_complete:
            yield Caveat("incomplete", f"{name} incomplete: {len(each.records):,} of {counted(each.scheduled, 'trial')}")
        if each.comparison.invalid:
            yield Caveat("invalid", f"{name} invalid: whichloop report {shlex.quote(run_name(each.folder))} says why")
        if errored:
            yield Caveat("errored", f"{name}: {errored:,} errored trials of {len(each.records):,} left out")
    for arm, (_, p) in pilot.again.items():
        if p < pilot.alpha / len(pilot.again):
            yield Caveat("second run differs", f"{arm}: the two runs differ by more than fresh seeds explain (p = {p:.2g})")
    yield from _small(pilot)
    yield from _variances(pilot)
    if any(arm.info.model == SCRIPTED for arm in run.comparison.arms):
        yield Caveat(
            "scripted model", "scripted: it varies less than a real model; with the baseline's seed a gate takes fewer tasks"
        )
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        yield Caveat("recording", "replies came from a recording: a live model varies more")
    if pilot.supply.tasks is None:
        yield Caveat("suite unknown", "how many tasks the suite has is not known")
    unknown = [arm.info.arm for arm in run.comparison.arms if arm.summary.means["cost_usd"] is None]
    if unknown and settings.models != (SCRIPTED,):
        yield Caveat("costs not known", f"dollars are not known of {listed_names(unknown)}")


def _small(pilot: Pilot) -> Iterator[Caveat]:
    """Yield how unsure a small pilot is, and what clusters leave of its tasks."""
    smallest = min(pilot.loops.values(), key=lambda spread: spread.units)
    units, what = smallest.units, "cluster" if smallest.is_clustered else "task"
    if are_too_few_to_plan(pilot.clusters or pilot.tasks, pilot.alpha, is_clustered=pilot.clusters is not None):
        yield Caveat("few tasks", f"{counted(units, what)} in the pilot: too few to plan from, run about {MIN_UNITS} first")
    elif units < MIN_UNITS:
        factor = (units - 1) / float(scipy.special.chdtri(units - 1, 0.95))
        yield Caveat("small pilot", f"{counted(units, what)}: the true variance may be {factor:.1f} times as large (95 % sure)")
    clustered = [spread for spread in pilot.pairs.values() if spread.is_clustered]
    if clustered:
        worst = max(clustered, key=lambda spread: spread.design_effect)
        alone = f"{worst.tasks / max(worst.design_effect, 1.0):.0f} independent ones"
        yield Caveat("clusters", f"{worst.tasks:,} tasks in {counted(worst.units, 'cluster')} count like {alone}")


def _variances(pilot: Pilot) -> Iterator[Caveat]:
    """Yield what of the variances was not seen, and is assumed."""
    once = [arm for arm, spread in pilot.loops.items() if not spread.within_known]
    constant = [arm for arm in pilot.loops if all(len(set(each)) == 1 for each in pilot.values[arm].values.values())]
    if once:
        yield Caveat("ran once", f"each task ran once in {listed_names(once)}: noise and gate sizes are upper bounds (--repeats 2)")
    elif constant:
        tasks = pilot.loops[constant[0]].tasks
        assumed = f"{min(UNSEEN, tasks)} of {counted(tasks, 'task')} are assumed to, an upper bound"
        yield Caveat("never varied", f"no task's repeats differed in {listed_names(constant)}: {assumed}")
    if "compare" not in pilot.request.purposes:
        return
    if pilot.is_alone:
        yield Caveat("no pair", "no two arms are compared: another design is taken to vary as much and to fail on other tasks")
    for (a, b), spread in pilot.pairs.items():
        if spread.variance(pilot.repeats) <= spread.floor:
            of = counted(spread.units, "cluster" if spread.is_clustered else "task")
            seen = "differed" if abs(spread.usual) <= NO_SPREAD else "differed otherwise than by the usual"
            assumed = f"on {min(UNSEEN, spread.units)}, an upper bound"
            yield Caveat("hardly apart", f"{a} and {b} {seen} on {spread.unusual} of {of}: assumed are differences {assumed}")
            return
