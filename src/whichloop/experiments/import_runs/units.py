"""Units that a column's name or a cell says: `Wall (ms)` and `350ms` are milliseconds, though the field is in seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .values import short_value

_CAMEL = re.compile(r"(?<=[a-zµμ0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+(?:\.[^\W_]+)*|[$€£¥¢%]")
_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_DOLLARS: Mapping[str, float] = {
    **dict.fromkeys(("$", "us$", "usd", "dollar", "dollars"), 1.0),
    **dict.fromkeys(("¢", "ct", "cts", "cent", "cents"), 1e-2),
}
_SHARES: Mapping[str, float] = dict.fromkeys(("%", "pct", "percent"), 1e-2)
_MANY: Mapping[str, float] = {"k": 1e3, "m": 1e6}
"""How people cut counts short: `1.5k`, `2M`."""
_TOKENS: Mapping[str, float] = {
    f"{many} {unit}".strip(): factor
    for many, factor in {"": 1.0, **_MANY}.items()
    for unit in ("", "tok", "toks", "token", "tokens")
    if many or unit
}
IN_NAMES: Mapping[str, Mapping[str, float]] = {"seconds": _SECONDS, "cost_usd": _DOLLARS, "score": _SHARES, "confidence": _SHARES}
"""Meaning of a column → the units that its name may end with, and how many of the field's unit one is."""
IN_CELLS: Mapping[str, Mapping[str, float]] = {
    **IN_NAMES,
    "seconds": {**_SECONDS, "m": 60.0, "d": 86400.0, "day": 86400.0, "days": 86400.0},
    **dict.fromkeys(("tokens", "input_tokens", "output_tokens"), _TOKENS),
    **dict.fromkeys(("steps", "lm_calls", "tool_calls"), _MANY),
}
"""The same of a cell, where `2m` says minutes."""
KEPT_AS: Mapping[str, str] = {"seconds": "seconds", "cost_usd": "US dollars"}
FIELD_UNITS: Mapping[str, str] = {**KEPT_AS, **dict.fromkeys(("score", "confidence"), "a share of 1")}
CURRENCIES = frozenset(["€", "£", "¥", "eur", "euro", "euros", "gbp", "pound", "pounds", "jpy", "yen", "cny", "chf", "inr"])
"""Money that is not US dollars, as a column's name or a cell says it."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The unit that a column's name says."""

    word: str
    """As the name has it, in small letters."""
    factor: float
    """How many of the field's unit one is."""
    reading: str = ""
    """What the user is told where it is another unit than the field's, and is converted."""
    note: str = ""
    """What the user is told where it cannot be converted."""


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in small letters: `latencyMs` and `Latency (ms)` are `latency`, `ms`.

    Points hold a word together, since they lead into objects: `usage.total tokens` is `usage.total`, `tokens`.
    """
    return _WORDS.findall(_CAMEL.sub(" ", name).lower()) or [name.lower()]


def unit_in(meaning: str, column: str) -> ColumnUnit | None:
    """Return the unit that ends a column's name; None if the name says none."""
    word, unit = words_of(column)[-1], FIELD_UNITS.get(meaning)
    if unit is None:
        return None
    if word in IN_NAMES[meaning]:
        factor = IN_NAMES[meaning][word]
        converted = f"column {short_value(column)} is read as {word} and kept as {unit}" if factor != 1 else ""
        return ColumnUnit(word, factor, converted)
    if meaning == "cost_usd" and word in CURRENCIES:
        note = f"column {short_value(column)} is taken as {unit}, though its name says {word}: convert it first"
        return ColumnUnit(word, 1.0, note=note)
    return None


def without_unit(meaning: str, words: list[str]) -> list[str] | None:
    """Return the words of a column's name before the unit that ends it; None if no unit of this meaning does."""
    if len(words) < 2 or words[-1] not in IN_NAMES.get(meaning, {}):
        return None
    return words[: -2 if words[-2] == "in" else -1]


def converted(value: float, factor: float) -> float:
    """Return how many of the field's unit a value is; a part of it divides, so that 7 % is 0.07 and 350 ms are 0.35 s."""
    return value / round(1 / factor) if factor < 1 else value * factor
