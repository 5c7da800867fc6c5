"""That the tasks of a run are clustered: what their clusters are called, and how each task counts by itself."""

from __future__ import annotations

from loopbench.metrics.comparison import Comparison
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import counted
from loopbench.runs.manifest import Manifest

OFF = "--map cluster="
"""What leaves the column of clusters out of an import."""
MAX_WIDE = 30
"""Most clusters of a run whose intervals are told to be wide by what they add to the clusters that were seen."""
WIDE = (
    "Intervals over so few clusters are wide: they allow for one more that goes the other way. The exact sign-flip test behind p "
    "and the verdict does not; both decide alike whether there is a difference."
)


def units_named(units: int, tasks: int, manifest: Manifest) -> str:
    """Return what a run's decisions count: `60 tasks`, or `9 clusters (by 'topic')` where tasks share them."""
    if units == tasks:
        return counted(units, "task")
    column = None if manifest.imported is None else manifest.imported.cluster
    return counted(units, "cluster") + ("" if column is None else f" (by {column!r})")


def clusters_sentence(manifest: Manifest, comparison: Comparison) -> str:
    """Return which column clusters the tasks of an imported run, and how each task counts by itself; empty where none does."""
    clustered = [pair for pair in comparison.pairs if pair.metric == PRIMARY and pair.units < pair.difference.n]
    column = None if not clustered or manifest.imported is None else manifest.imported.cluster
    if column is None:
        return ""
    most = max(clustered, key=lambda pair: pair.difference.n)
    units = f"{counted(most.difference.n, 'task')} count as {counted(most.units, 'cluster')}, by {column!r}"
    alike = f"{units}, since tasks that share one are alike; import with {OFF} if they are independent."
    return f"{alike} {WIDE}" if most.units <= MAX_WIDE else alike
