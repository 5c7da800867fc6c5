"""Units that a column's name says: `Wall (ms)` holds milliseconds, though the field is in seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .values import shown

_WORDS = re.compile(r"[a-zµμ]+|[€£¥¢]")
_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_DOLLARS: Mapping[str, float] = dict.fromkeys(("¢", "ct", "cts", "cent", "cents"), 1e-2)
_FACTORS: Mapping[str, tuple[str, Mapping[str, float]]] = {"seconds": ("seconds", _SECONDS), "cost_usd": ("US dollars", _DOLLARS)}
"""Meaning of a column → its unit, and of other units how many of it one is."""
_CURRENCIES = frozenset(["€", "£", "¥", "eur", "euro", "euros", "gbp", "pound", "pounds", "jpy", "yen", "cny", "chf", "inr"])


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The unit of a column that is another one than its field's."""

    factor: float
    """What makes a value one of the field's unit."""
    note: str
    """What the user is told."""


def unit_in(meaning: str, column: str) -> ColumnUnit | None:
    """Return the unit that ends a column's name; None if it is the field's, or the name says none."""
    words = _WORDS.findall(column.lower())
    if meaning not in _FACTORS or not words:
        return None
    unit, factors = _FACTORS[meaning]
    if words[-1] in factors:
        return ColumnUnit(factors[words[-1]], f"column {shown(column)} is read as {words[-1]} and kept as {unit}")
    if meaning == "cost_usd" and words[-1] in _CURRENCIES:
        return ColumnUnit(1.0, f"column {shown(column)} is taken as {unit}, though its name says {words[-1]}: convert it first")
    return None
