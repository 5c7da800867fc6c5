"""The CI gate: bless a baseline, judge a run against it, and report the outcome."""

from .baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .baseline_changes import replaced
from .brief import text
from .judge import DEFAULT_METRICS, Incomparable, check_request, judge
from .outcome import GateArm, GateResult, Side, TaskChange
from .outputs import github_annotations, headline, to_junit, to_markdown
from .rerun import RerunSettings, prepare_again

__all__ = [
    "DEFAULT_METRICS",
    "Baseline",
    "GateArm",
    "GateResult",
    "Incomparable",
    "RerunSettings",
    "Side",
    "TaskChange",
    "bless",
    "check_request",
    "github_annotations",
    "headline",
    "judge",
    "prepare_again",
    "read_baseline",
    "read_run",
    "replaced",
    "text",
    "to_junit",
    "to_markdown",
    "write_baseline",
]
