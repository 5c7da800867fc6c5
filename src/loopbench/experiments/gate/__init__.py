"""The CI gate: bless a baseline, judge a run against it, and report the outcome."""

from .again import RepeatedTrials, run_doubtful_again
from .changes.baseline_changes import replaced
from .changes.unrun import UnrunLines
from .commands import Rules
from .comparable import Incomparable, check_request
from .data.baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .data.outcome import GateArm, GateResult, Side, TaskChange
from .judge import DEFAULT_METRICS, judge
from .output.brief import text
from .output.github import github_annotations
from .output.junit import to_junit
from .output.sentences import headline
from .output.text import to_markdown
from .rerun import RerunSettings, prepare_again
from .running import run_unless_it_hangs
from .watched_lines import unrun_lines

__all__ = [
    "DEFAULT_METRICS",
    "Baseline",
    "GateArm",
    "GateResult",
    "Incomparable",
    "RepeatedTrials",
    "RerunSettings",
    "Rules",
    "Side",
    "TaskChange",
    "UnrunLines",
    "bless",
    "check_request",
    "github_annotations",
    "headline",
    "judge",
    "prepare_again",
    "read_baseline",
    "read_run",
    "replaced",
    "run_doubtful_again",
    "run_unless_it_hangs",
    "text",
    "to_junit",
    "to_markdown",
    "unrun_lines",
    "write_baseline",
]
