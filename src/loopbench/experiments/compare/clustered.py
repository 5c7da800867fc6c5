"""That the tasks of an imported run are clustered by a column: what it is called, and how each task counts by itself."""

from __future__ import annotations

from loopbench.metrics.comparison import Comparison
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import counted
from loopbench.runs.manifest import Manifest

OFF = "--map cluster="
"""What leaves the column of clusters out of an import."""


def clusters_sentence(manifest: Manifest, comparison: Comparison) -> str:
    """Return which column clusters the tasks of an imported run, and how each task counts by itself; empty where none does."""
    clustered = [pair for pair in comparison.pairs if pair.metric == PRIMARY and pair.units < pair.difference.n]
    column = None if not clustered or manifest.imported is None else manifest.imported.cluster
    if column is None:
        return ""
    most = max(clustered, key=lambda pair: pair.difference.n)
    units = f"{counted(most.difference.n, 'task')} count as {counted(most.units, 'cluster')}, by {column!r}"
    return f"{units}, since tasks that share one are alike; import with {OFF} if they are independent."
