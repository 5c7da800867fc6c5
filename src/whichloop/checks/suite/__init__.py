"""Checks of suites: `whichloop check suite`, and the quick checks at the start of a comparison.

They follow the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825). The names load on first use.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {
    "whichloop.checks.suite.check": ("CHECKS", "Checked", "check_suite", "quick_problems", "sampled", "task_problems"),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
