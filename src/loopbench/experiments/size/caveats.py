"""What to keep in mind of a pilot, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from scipy import stats

from loopbench.experiments.compare.results import Results

from .pilot import Pilot

MIN_UNITS = 50
"""Fewer leave much doubt about the variance itself."""


def caveats(pilot: Pilot, found: Results, again: Results | None = None) -> Iterator[str]:
    """`again`: the second run, where there is one."""
    yield from _of_trials(found, "The pilot")
    if again is not None:
        yield from _of_trials(again, "The second run")
    yield from _of_the_model(found)
    if pilot.supply.tasks is None:
        yield "How many tasks the suite has is not known; the pilot ran the first of them."
    if found.manifest.settings.models != ("scripted",) and pilot.price.cost_usd is None:
        how = "" if found.manifest.imported is not None else ": --prices, docs/models.md"
        yield f"No price is known, so the cost in dollars is unknown{how}."
    yield from _of_variances(pilot, any(arm.info.model == "scripted" for arm in found.comparison.arms))
    for arm, (_, p) in pilot.second.items():
        if p < pilot.alpha / len(pilot.second):
            yield f"{arm}: the two runs differ by more than fresh seeds explain (p = {p:.2g}); something else has changed."


def _of_trials(found: Results, name: str) -> Iterator[str]:
    if not found.is_complete:
        yield f"{name} is incomplete: {len(found.records)} of {found.scheduled} trials."
    if found.comparison.invalid:
        yield f"{name} is invalid: its faults did not land, an arm was not scored, or its recording lacked what was asked."
    errored = sum(arm.summary.errored for arm in found.comparison.arms)
    if errored:
        yield f"{name} has {errored} errored trials of {len(found.records)}, which are left out."


def _of_the_model(found: Results) -> Iterator[str]:
    settings = found.manifest.settings
    if any(arm.info.model == "scripted" for arm in found.comparison.arms):
        yield "The model is scripted: from run to run only the draws of faults vary, less than a real model does."
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        yield "The replies came from a recording: a live model varies more."


def _of_variances(pilot: Pilot, scripted: bool) -> Iterator[str]:
    loops, pairs, purposes = pilot.loops.values(), pilot.pairs, pilot.request.purposes
    if not all(varies.within_known for varies in loops):
        yield (
            "Tasks ran once, so the variation within a task is unknown: noise and gate sizes are upper bounds, and comparison "
            "sizes assume one repeat. A pilot with --repeats 2 would tell."
        )
    elif still := [arm for arm in pilot.loops if all(len(set(found)) == 1 for found in pilot.values[arm].values.values())]:
        of = f"3 of {pilot.loops[still[0]].tasks} tasks"
        assumption = f"the sizes assume that those of {of} do, an upper bound (95 % sure)"
        yield f"{', '.join(still)}: no task's repeats ever differed; {assumption}."
    if "gate" in purposes and scripted:
        yield (
            "The scripted model repeats itself: with the baseline's seed an unchanged loop passes as identical at any size. The "
            "sizes are for loops that were changed and do no harm, and for other seeds."
        )
    if "compare" in purposes:
        if pilot.alone:
            yield "No two arms of the pilot are compared: the other design is taken to vary as much, and to fail on other tasks."
        if equal := [names for names, varies in pairs.items() if varies.variance(pilot.repeats) == varies.floor]:
            of = f"3 of {pairs[equal[0]].units} tasks"
            assumption = f"the sizes assume that they do on {of}, an upper bound (95 % sure)"
            yield f"{equal[0][0]} and {equal[0][1]} hardly ever differed; {assumption}."
    if (few := min(varies.units for varies in loops)) < MIN_UNITS:
        factor = (few - 1) / float(stats.chi2.ppf(0.05, few - 1))
        yield f"{few} independent tasks are a small pilot: the true variance may be {factor:.1f} times as large (95 % sure)."
    clustered = [varies for varies in pairs.values() if varies.units < varies.tasks]
    if clustered:
        worst = max(clustered, key=lambda varies: varies.design_effect)
        alone = f"{worst.tasks / max(worst.design_effect, 1.0):.0f} independent ones"
        yield f"{worst.tasks} tasks of {worst.units} templates count like {alone}; more tasks are taken to be of more templates."
