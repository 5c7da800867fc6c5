"""The CI gate: bless a baseline, judge a run against it, and report the outcome."""

from .changes.baseline_changes import replaced
from .commands import Rules
from .comparable import Incomparable, check_request
from .data.baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .data.outcome import GateArm, GateResult, Side, TaskChange
from .ended_run import EndedRun, RerunSettings, prepare_again, run_to_judge
from .judge import DEFAULT_METRICS, judge
from .output.brief import text
from .output.github import github_annotations
from .output.junit import to_junit
from .output.sentences import headline
from .output.text import to_markdown

__all__ = [
    "DEFAULT_METRICS",
    "Baseline",
    "EndedRun",
    "GateArm",
    "GateResult",
    "Incomparable",
    "RerunSettings",
    "Rules",
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
    "run_to_judge",
    "text",
    "to_junit",
    "to_markdown",
    "write_baseline",
]
