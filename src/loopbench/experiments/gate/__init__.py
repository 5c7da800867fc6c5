"""The gate for CI: a baseline that is blessed, a run held against it, and what is said about that."""

from .baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .gate import RerunSettings, gate, prepare_again
from .judge import DEFAULT_METRICS, Incomparable, check_asked, judge
from .outcome import GateResult, JudgedArm, Side, TaskChange
from .outputs import github_annotations, headline, text, to_junit, to_markdown

__all__ = [
    "DEFAULT_METRICS",
    "Baseline",
    "GateResult",
    "Incomparable",
    "JudgedArm",
    "RerunSettings",
    "Side",
    "TaskChange",
    "bless",
    "check_asked",
    "gate",
    "github_annotations",
    "headline",
    "judge",
    "prepare_again",
    "read_baseline",
    "read_run",
    "text",
    "to_junit",
    "to_markdown",
    "write_baseline",
]
