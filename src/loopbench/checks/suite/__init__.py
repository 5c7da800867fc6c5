"""Checks of suites: `loopbench check suite`, and the quick checks at the start of a comparison.

They follow the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825). Checks of files cover all tasks; those that open
environments or call tools cover a sample of them.
"""

from .check import CHECKS, Checked, check_suite, task_problems
from .quick import quick_problems
from .subject import Progress, SuiteCheck, SuiteFinding, sampled

__all__ = [
    "CHECKS",
    "Checked",
    "Progress",
    "SuiteCheck",
    "SuiteFinding",
    "check_suite",
    "quick_problems",
    "sampled",
    "task_problems",
]
