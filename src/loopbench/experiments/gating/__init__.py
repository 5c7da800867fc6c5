"""The gate for CI: a baseline that is blessed, a run held against it, and what is said about that."""

from .baseline import Baseline, bless, read_baseline, read_run, write_baseline
from .gate import Again, gate, prepare_again
from .judge import DEFAULT_METRICS, Refused, check_asked, judge
from .judged import Judged, JudgedArm, Side, TaskChange
from .outputs import github_annotations, headline, text, to_junit, to_markdown

__all__ = [
    "DEFAULT_METRICS",
    "Again",
    "Baseline",
    "Judged",
    "JudgedArm",
    "Refused",
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
