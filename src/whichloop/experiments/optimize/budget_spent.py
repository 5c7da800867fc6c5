"""The end of a design's budget."""

from __future__ import annotations


class BudgetSpent(BaseException):
    """The design's budget is used up. No Exception: optimizers swallow those, and would go on."""
