"""Runs in MLflow: finished comparisons, and optimizations while they go on.

The one package that imports MLflow.
"""

from whichloop._lazy import explained_module
from whichloop.runs.store_addresses import SERVERS, default_uri, ui_command

with explained_module(__name__):
    from .addresses import DATABASES  # first: it sets what MLflow reads when it is imported
    from .comparison import arm_metrics, log_run, track, track_as_configured
    from .notes import note
    from .optimization import OptimizationTracker
    from .store import Tracked, get_ready, metric_key
    from .traces import MAX_TRACES, USUAL_TRACES, sample, shows, trace_spans, trials_table
    from .versions import config_fields

__all__ = [
    "DATABASES",
    "MAX_TRACES",
    "SERVERS",
    "USUAL_TRACES",
    "OptimizationTracker",
    "Tracked",
    "arm_metrics",
    "config_fields",
    "default_uri",
    "get_ready",
    "log_run",
    "metric_key",
    "note",
    "sample",
    "shows",
    "trace_spans",
    "track",
    "track_as_configured",
    "trials_table",
    "ui_command",
]
