"""A program that was ahead when the budget ended its search, and what would finish it: one sentence, the same everywhere."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TypeVar

from whichloop.metrics.record_fields import MAX_COUNT
from whichloop.runs.config import BudgetConfig
from whichloop.runs.typed_budgets import budget_text

from .candidates import SearchCost, SearchEnd
from .tried import TriedProgram, solved

DIGITS = 2
"""Digits to which a proposed limit is rounded up."""
Number = TypeVar("Number", int, float)


def cut_off(end: SearchEnd, tried: Sequence[TriedProgram], last: str, budget: BudgetConfig) -> str:
    """Return that the budget ended the search before a program that was ahead of the kept one had run all dev tasks; else empty.

    `last`: the digest of the program that was being scored when the budget ended.
    """
    program = next((each for each in tried if each.candidate.digest == last and not each.is_kept), None)
    if end.status != "budget" or program is None:
        return ""
    ran = {task: score for task, score in program.candidate.dev.items() if task in end.after}
    missing = program.tasks.dev - len(program.candidate.dev)
    kept_score = solved({task: end.after[task] for task in ran})
    if missing < 1 or solved(ran) <= kept_score:
        return ""
    larger = shlex.quote(budget_text(_larger(budget, end.search, program.spent, missing)))
    stopped = f"the budget ended the search before program {program.number} had run all {program.tasks.dev} dev tasks"
    ahead = f"it had solved {solved(ran):g} of the {len(ran)} that it ran, the kept program {kept_score:g} of these"
    return f"{end.design}: {stopped}; {ahead}; a new run with --budget {larger} is likely to finish it"


def _larger(budget: BudgetConfig, search: SearchCost, spent: SearchCost, missing: int) -> BudgetConfig:
    """Return a budget that also pays for the missing rollouts of a program. `spent`: its rollouts so far."""
    each = missing / max(1, spent.trials)
    return BudgetConfig(
        calls=None if budget.calls is None else _raised(budget.calls, search.calls, each * spent.calls),
        tokens=None if budget.tokens is None else _raised(budget.tokens, search.tokens, each * spent.tokens),
        dollars=None if budget.dollars is None else _raised(budget.dollars, search.dollars or 0.0, each * (spent.dollars or 0.0)),
    )


def _raised(limit: Number, spent: Number, more: float) -> Number:
    """Return a limit that has room for more, rounded up; what is a whole number stays one."""
    needed = max(limit, spent) + more
    unit = 10.0 ** (math.floor(math.log10(needed)) - DIGITS + 1)
    rounded = min(math.ceil(needed / unit) * unit, MAX_COUNT)
    return type(limit)(round(rounded, 12))
