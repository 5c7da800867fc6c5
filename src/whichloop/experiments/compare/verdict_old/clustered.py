"""That the tasks of a run are clustered: what their clusters are called, and how each task counts by itself."""

from __future__ import annotations

import re

from whichloop.metrics.comparison import Comparison
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import listed_names

OFF = "--map cluster="
"""What leaves the column of clusters out of an import."""
MAX_FEW = 30
"""Most clusters of a run that is told what its intervals add to the clusters that were seen."""
ADDED = (
    "Few clusters show little of how unlike clusters are: the interval of a difference in accuracy counts one more that goes each "
    "way, and the exact sign-flip test behind p and the verdict does not. Both decide alike whether there is a difference."
)


def units_named(units: int, tasks: int, manifest: Manifest) -> str:
    """Return what a run's decisions count: `60 tasks`, or `9 clusters (by 'topic')` where tasks share them."""
    if units == tasks:
        return counted(units, "task")
    column = None if manifest.imported is None else manifest.imported.cluster
    return counted(units, "cluster") + ("" if column is None else f" (by {column!r})")


def clusters_sentence(manifest: Manifest, comparison: Comparison) -> str:
    """Return which column clusters the tasks of an imported run, and how each task counts by itself; empty where none does."""
    clustered = [pair for pair in comparison.pairs_on(PRIMARY) if pair.units < pair.difference.n]
    column = None if not clustered or manifest.imported is None else manifest.imported.cluster
    if column is None:
        return ""
    most = max(clustered, key=lambda pair: pair.difference.n)
    units = f"{counted(most.difference.n, 'task')} count as {counted(most.units, 'cluster')}, by {column!r}"
    alike = f"{units}, since tasks that share one are alike; import with {OFF} if they are independent."
    return f"{alike} {ADDED}" if most.units <= MAX_FEW else alike


def unit_sentences(manifest: Manifest, comparison: Comparison) -> list[str]:
    """Return what there is to know of a run's units: what clusters its tasks, and why an amount has no interval."""
    return [sentence for sentence in (clusters_sentence(manifest, comparison), no_interval_sentence(comparison)) if sentence]


def no_interval_sentence(comparison: Comparison) -> str:
    """Return why means and differences of amounts have no interval; empty where all of them have one."""
    means = [mean for arm in comparison.arms for mean in arm.summary.means.values()]
    without = [mean for mean in means if mean is not None and not mean.is_known]
    if not without:
        return ""
    fewest = min(without, key=lambda mean: mean.n if mean.units is None else mean.units)
    units = counted(fewest.n, "task") if fewest.units is None else counted(fewest.units, "cluster")
    return (
        f"Amounts over {units}, such as tokens, have no interval, neither means nor differences: even a sign test, the surest that "
        f"so few allow, would be wrong in more than {100 * comparison.alpha:g} % of runs."
    )


OPTION, SHOWN = "tool_errors", "shown"
_AS_IT_COMES = re.compile(rf"\b{OPTION}='default'")


def defaults_sentence(manifest: Manifest) -> str:
    """Return which frameworks ran with their own way with a failing tool, and what shows the model its error; empty for none."""
    loops = dict.fromkeys(arm.loop for arm in manifest.arms if _AS_IT_COMES.search(arm.configuration))
    if not loops:
        return ""
    runs = "runs" if len(loops) == 1 else "run"
    names = listed_names(list(loops))
    return f"{names} {runs} as installed; {next(iter(loops))}({OPTION}={SHOWN}) shows the model what a tool raises."
