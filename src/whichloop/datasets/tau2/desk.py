"""The tools that agents of tau2's retail and airline share: a calculator, and a way out."""

from __future__ import annotations

from .arithmetic import calculated
from .records import TrialTables


def calculate(db: TrialTables, expression: str) -> str:
    """Calculate a sum, rounded to cents.

    Args:
        expression: Numbers with + - * / and parentheses, such as '19.99 * 2 + 5'.
    """
    return calculated(expression)


def transfer_to_human_agents(db: TrialTables, summary: str) -> str:
    """Hand the customer over to a human; only where they ask for one, or policy and tools leave no way to help.

    Args:
        summary: The customer's issue in short.
    """
    return "Transfer successful"
