"""The CI gate: bless a baseline, judge a run against it, and report the outcome."""

from .again import RepeatedTrials, run_doubtful_again
from .as_junit import to_junit
from .baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .baseline_changes import replaced
from .brief import text
from .commands import Rules
from .comparable import Incomparable, check_request
from .github import github_annotations
from .judge import DEFAULT_METRICS, judge
from .outcome import GateArm, GateResult, Side, TaskChange
from .outputs import to_markdown
from .rerun import RerunSettings, prepare_again
from .running import run_unless_it_hangs
from .sentences import headline

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
    "write_baseline",
]
