"""The CI gate: bless a baseline, judge a run against it, and report the outcome."""

from .baseline import Baseline, GateSettings, bless, read_baseline, read_run, write_baseline
from .doc import gate_doc
from .judge import GateResult, judge
from .match import Incomparable
from .reasons import Reason
from .rerun import config_again, prepare_again, run_and_judge

__all__ = [
    "Baseline",
    "GateResult",
    "GateSettings",
    "Incomparable",
    "Reason",
    "bless",
    "config_again",
    "gate_doc",
    "judge",
    "prepare_again",
    "read_baseline",
    "read_run",
    "run_and_judge",
    "write_baseline",
]
