"""Whether a suite can be trusted: `loopbench check suite`, and the quick checks that a comparison begins with.

After the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825). Checks of files look at all tasks; those that open
environments or call tools look at a sample of them.
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
