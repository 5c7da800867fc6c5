"""A budget as it is typed: `2000` or `2000calls`, `1.5e6tokens`, `$2.50` or `2.5usd`, several with commas between."""

from __future__ import annotations

import re

from pydantic import BaseModel

_PART = re.compile(r"(\$?)\s*(\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?)\s*([a-z]*)", re.ASCII)
_UNITS = {
    **dict.fromkeys(("", "call", "calls"), "calls"),
    **dict.fromkeys(("token", "tokens"), "tokens"),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "dollars"),
    **dict.fromkeys(("s", "seconds"), "seconds"),
}
_FORM = "write calls, tokens, dollars or seconds, such as 2000, 2000calls, 1.5e6tokens, 2.5usd or 60s, several with commas between"
_WRITTEN = {"calls": "{}calls", "tokens": "{}tokens", "dollars": "${!r}", "seconds": "{:.12g}s"}


def typed_limits(value: object) -> dict[str, float]:
    """Return the limits of a budget by name, from a text or a number of calls. Raises ValueError for what is neither."""
    limits: dict[str, float] = {}
    for part in str(value).lower().split(","):
        match = _PART.fullmatch(part.strip())
        unit = _UNITS.get(match[1] + match[3]) if match else None
        if match is None or unit is None or unit in limits:
            raise ValueError(f"{str(value)[:60]!r} is not a budget; {_FORM}")
        limits[unit] = float(match[2])
    return limits


def budget_text(budget: BaseModel) -> str:
    """Return a budget as it is typed, or `no limit`."""
    return ",".join(_WRITTEN[name].format(limit) for name, limit in budget.model_dump(exclude_none=True).items()) or "no limit"
