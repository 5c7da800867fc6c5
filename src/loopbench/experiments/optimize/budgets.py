"""A budget as it is typed: `2000` or `2000calls`, `1.5e6tokens`, `$2.50` or `2.5usd`, several with commas between."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

from loopbench.runs.config import BudgetConfig

_PART = re.compile(r"(\$?)\s*(\d+(?:\.\d+)?(?:e\+?\d{1,2}|e-\d{1,2})?)\s*([a-z]*)", re.ASCII)
_UNITS = {
    "": "calls",
    "call": "calls",
    "calls": "calls",
    "token": "tokens",
    "tokens": "tokens",
    "$": "dollars",
    "usd": "dollars",
    "dollar": "dollars",
    "dollars": "dollars",
}
MAX = Decimal(10**15)
_FORM = "write calls, tokens or dollars, such as 2000, 2000calls, 1.5e6tokens or $2.50, several with commas between"


class BudgetSpent(BaseException):
    """The design's budget is used up. No Exception: optimizers swallow those, and would go on."""


def parse_budget(text: str) -> BudgetConfig:
    """Parse a budget. Raises ValueError with a one-line message."""
    amounts: dict[str, Decimal] = {}
    for part in text.split(","):
        unit, amount = _parsed(part.strip())
        if unit in amounts:
            raise ValueError(f"{_short(text)}: {unit} are given twice")
        amounts[unit] = amount
    integers = {unit: int(amount) for unit, amount in amounts.items() if unit != "dollars"}
    dollars = {unit: float(amount) for unit, amount in amounts.items() if unit == "dollars"}
    return BudgetConfig.model_validate({**integers, **dollars})


def _parsed(part: str) -> tuple[str, Decimal]:
    match = _PART.fullmatch(part.lower())
    sign, number, word = match.groups() if match else ("", "", "?")
    unit = _UNITS.get(sign + word)
    if unit is None:
        raise ValueError(f"{_short(part)} is not a budget; {_FORM}")
    amount = Decimal(number)
    if not 0 < amount <= MAX or (unit != "dollars" and amount != int(amount)):
        raise ValueError(f"{_short(part)}: a {_KINDS[unit]} from {_MIN[unit]} to 10¹⁵ is needed")
    return unit, amount


def _read(value: Any) -> Any:
    return parse_budget(value) if isinstance(value, str) else value


Budget = Annotated[BudgetConfig, BeforeValidator(_read)]
"""A budget as a text, or as a table of its limits: in a file, in Python and on the command line alike."""
_KINDS = {"calls": "whole number", "tokens": "whole number", "dollars": "number"}
_MIN = {"calls": "1", "tokens": "1", "dollars": "above 0"}


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def budget_text(budget: BudgetConfig) -> str:
    """Return a budget as it is typed, without seconds, or `no limit`."""
    parts = []
    if budget.calls is not None:
        parts.append(f"{budget.calls}calls")
    if budget.tokens is not None:
        parts.append(f"{budget.tokens}tokens")
    if budget.dollars is not None:
        parts.append(f"${budget.dollars!r}")
    return ",".join(parts) or "no limit"
