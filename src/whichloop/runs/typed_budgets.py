"""A budget as it is typed: `2000` or `2000calls`, `1.5e6tokens`, `$2.50` or `2.5usd`, several with commas between."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

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
    "s": "seconds",
    "seconds": "seconds",
}
MAX = Decimal(10**15)
_FORM = "write calls, tokens, dollars or seconds, such as 2000, 2000calls, 1.5e6tokens, 2.5usd or 60s, several with commas between"


class TypedLimits(Protocol):
    """The limits of a budget that can be typed; None means no limit."""

    @property
    def calls(self) -> int | None: ...

    @property
    def tokens(self) -> int | None: ...

    @property
    def dollars(self) -> float | None: ...

    @property
    def seconds(self) -> float | None: ...


def typed_limits(value: object) -> Mapping[str, Any]:
    """Return the limits of a budget by name, from a text or from a number of calls.

    Raises ValueError with a one-line message, for anything else too.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _parsed_budget(str(value))
    if not isinstance(value, str):
        raise ValueError(f"{_short_value(value)} is not a budget; {_FORM}")
    return _parsed_budget(value)


def _parsed_budget(text: str) -> dict[str, Any]:
    amounts: dict[str, Decimal] = {}
    for part in text.split(","):
        unit, amount = _parsed(part.strip())
        if unit in amounts:
            raise ValueError(f"{_short_value(text)}: {unit} are given twice")
        amounts[unit] = amount
    return {unit: int(amount) if unit in ("calls", "tokens") else float(amount) for unit, amount in amounts.items()}


def _parsed(part: str) -> tuple[str, Decimal]:
    match = _PART.fullmatch(part.lower())
    sign, number, word = match.groups() if match else ("", "", "?")
    unit = _UNITS.get(sign + word)
    if unit is None:
        raise ValueError(f"{_short_value(part)} is not a budget; {_FORM}")
    amount = Decimal(number)
    if not 0 < amount <= MAX or (unit in ("calls", "tokens") and amount != int(amount)):
        raise ValueError(f"{_short_value(part)}: a {_KINDS[unit]} from {_MIN[unit]} to 10¹⁵ is needed")
    return unit, amount


_KINDS = {"calls": "whole number", "tokens": "whole number", "dollars": "number", "seconds": "number"}
_MIN = {"calls": "1", "tokens": "1", "dollars": "above 0", "seconds": "above 0"}


def _short_value(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:60]}…")
    return f"a {type(value).__name__}"


def budget_text(budget: TypedLimits) -> str:
    """Return a budget as it is typed, or `no limit`."""
    parts = []
    if budget.calls is not None:
        parts.append(f"{budget.calls}calls")
    if budget.tokens is not None:
        parts.append(f"{budget.tokens}tokens")
    if budget.dollars is not None:
        parts.append(f"${budget.dollars!r}")
    if budget.seconds is not None:
        parts.append(f"{budget.seconds:.12g}s")
    return ",".join(parts) or "no limit"
