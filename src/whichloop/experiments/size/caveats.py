"""The caveats of a pilot, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

import scipy

from whichloop.experiments.compare.results import Results
from whichloop.metrics.power import UNSEEN, Spread
from whichloop.metrics.statistics import NO_SPREAD
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import listed_names

from .pilot import Pilot

MIN_UNITS = 50
"""Minimum number of independent tasks, or of clusters, for a reliable variance."""


def caveats(pilot: Pilot, run: Results, second: Results | None = None) -> Iterator[str]:
    """Yield the caveats of a pilot; `second` is the second run, if any."""
    yield from _trial_caveats(run, "The pilot")
    if second is not None:
        yield from _trial_caveats(second, "The second run")
    settings = run.manifest.settings
    if any(arm.info.model == SCRIPTED for arm in run.comparison.arms):
        yield "The model is scripted: from run to run only the draws of faults vary, less than a real model does."
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        yield "The replies came from a recording: a live model varies more."
    if pilot.supply.tasks is None:
        yield "How many tasks the suite has is not known; the pilot ran the first of them."
    if run.manifest.settings.models != (SCRIPTED,) and pilot.price.cost_usd is None:
        unknown = [arm.info.arm for arm in run.comparison.arms if arm.summary.means["cost_usd"] is None]
        if len(unknown) < len(run.comparison.arms):
            yield f"What {listed_names(unknown)} costs is not known, so the cost in dollars is unknown."
        else:
            hint = "" if run.manifest.imported is not None else ": --prices, docs/models.md"
            yield f"No price is known, so the cost in dollars is unknown{hint}."
    again = "with --repeats 2" if run.manifest.imported is None else "in which each task ran twice"
    yield from _variance_caveats(pilot, run, again)
    for arm, (_, p) in pilot.second.items():
        if p < pilot.alpha / len(pilot.second):
            yield f"{arm}: the two runs differ by more than fresh seeds explain (p = {p:.2g}); something else has changed."


def _trial_caveats(run: Results, name: str) -> Iterator[str]:
    if not run.is_complete:
        yield f"{name} is incomplete: {len(run.records):,} of {counted(run.scheduled, 'trial')}."
    if run.comparison.invalid:
        why = "its faults did not land, an arm was not scored, its recording lacked what was asked, or most plans mislead"
        yield f"{name} is invalid: {why}."
    errored = sum(arm.summary.errored for arm in run.comparison.arms)
    if errored:
        yield f"{name} has {errored} errored trials of {len(run.records)}, which are left out."


def _variance_caveats(pilot: Pilot, run: Results, again: str) -> Iterator[str]:
    loops, purposes = pilot.loops.values(), pilot.request.purposes
    once = [arm for arm, spread in pilot.loops.items() if not spread.within_known]
    if once:
        ran = "Tasks ran once" if len(once) == len(pilot.loops) else f"{listed_names(once)}: tasks ran once"
        yield (
            f"{ran}, so the variation within a task is unknown: noise and gate sizes are upper bounds, and comparison "
            f"sizes assume one repeat. A pilot {again} would tell."
        )
    elif constant := [arm for arm in pilot.loops if all(len(set(results)) == 1 for results in pilot.values[arm].values.values())]:
        tasks = pilot.loops[constant[0]].tasks
        assumed = f"{min(UNSEEN, tasks)} of {counted(tasks, 'task')}"
        assumption = f"the sizes assume that those of {assumed} do, an upper bound (95 % sure)"
        yield f"{', '.join(constant)}: no task's repeats ever differed; {assumption}."
    if "gate" in purposes and any(arm.info.model == SCRIPTED for arm in run.comparison.arms):
        yield (
            "The scripted model repeats itself: with the baseline's seed, as in CI, a loop whose trials keep score and stop passes "
            "at any size. The sizes are for loops whose scores change and do no harm, and for other seeds."
        )
    if "compare" in purposes:
        if pilot.alone:
            yield "No two arms of the pilot are compared: the other design is taken to vary as much, and to fail on other tasks."
        yield from _hardly_apart(pilot, run)
    smallest = min(loops, key=lambda spread: spread.units)
    if (units := smallest.units) < MIN_UNITS:
        factor = (units - 1) / float(scipy.special.chdtri(units - 1, 0.95))
        few = units_named(units, smallest.tasks, run.manifest) if smallest.is_clustered else f"{units} independent tasks"
        yield f"{few} are a small pilot: the true variance may be {factor:.1f} times as large (95 % sure), so the sizes are larger."
    yield from _clustered(pilot, run)


def _hardly_apart(pilot: Pilot, run: Results) -> Iterator[str]:
    """Yield of the first pair that differed on too few units to know its variance on how many, and what the sizes assume."""
    for (a, b), spread in pilot.pairs.items():
        if spread.variance(pilot.repeats) > spread.floor:
            continue
        of = units_named(spread.units, spread.tasks, run.manifest)
        apart = f"{'1' if spread.scores else 'a factor of 2'} on {min(UNSEEN, spread.units)} of"
        bound = "an upper bound (95 % sure)"
        if pilot.alone:
            yield f"The sizes assume that another design differs from {a} by {apart} {of}, {bound}."
        else:
            by = "differed on" if abs(spread.usual) <= NO_SPREAD else "differed by the same on all but"
            yield f"{a} and {b} {by} {spread.unusual} of {of}; the sizes assume a difference of {apart} them, {bound}."
        return


def _clustered(pilot: Pilot, run: Results) -> Iterator[str]:
    """Yield what the tasks of the pair that clusters cost most count for."""
    clustered: list[Spread] = [spread for spread in pilot.pairs.values() if spread.is_clustered]
    if clustered:
        worst = max(clustered, key=lambda spread: spread.design_effect)
        tasks, alone = counted(worst.tasks, "task"), f"{worst.tasks / max(worst.design_effect, 1.0):.0f} independent ones"
        clusters = units_named(worst.units, worst.tasks, run.manifest)
        yield f"By this estimate {tasks} in {clusters} count like {alone}; more tasks are taken to come in more clusters."


def units_named(units: int, tasks: int, manifest: Manifest) -> str:
    """Return what a run's decisions count: `60 tasks`, or `9 clusters`."""
    return counted(units, "task") if units == tasks else counted(units, "cluster")
