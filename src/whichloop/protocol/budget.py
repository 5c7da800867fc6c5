"""What may be spent, and what has been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Expenses:
    """What has been spent."""

    calls: int = 0
    """Requests to a model; the attempts that its client makes by itself at one request are not counted."""
    tokens: int = 0
    """Input and output tokens."""
    dollars: float = 0.0
    """US dollars, of the replies whose price is known."""
    unpriced: int = 0
    """Replies whose price is not known."""

    @property
    def cost_usd(self) -> float | None:
        """US dollars that all replies cost; None if the price of one is not known, for that is not 0."""
        return None if self.unpriced else self.dollars


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent, by a whole run or by who holds a meter; None: no limit."""

    calls: int | None = None
    """Requests to a model; the attempts that its client makes by itself at one request are not counted."""
    tokens: int | None = None
    """Input and output tokens."""
    dollars: float | None = None
    """US dollars, as far as prices are known; a model that says of itself that it has no price is refused."""
    seconds: float | None = None
    """Wall time since the meter was made. It is looked at before each call, so that a call under way is not interrupted:
    `asyncio.timeout` does that."""

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "dollars", "seconds"):
            limit = getattr(self, name)
            if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool) or not limit >= 0):
                raise ValueError(f"Budget: {name} must be 0 or more, or None for no limit, not {limit!r}")

    @property
    def is_unlimited(self) -> bool:
        return self.calls is None and self.tokens is None and self.dollars is None and self.seconds is None

    def used_up(self, spent: Expenses, seconds: float = 0.0) -> str:
        """Return the limit that is used up, in words; empty while there is room."""
        limits = {
            "model calls": (spent.calls, self.calls),
            "tokens": (spent.tokens, self.tokens),
            "dollars": (spent.dollars, self.dollars),
            "seconds": (seconds, self.seconds),
        }
        for what, (used, limit) in limits.items():
            if limit is not None and used >= limit:
                return f"budget of {limit:.12g} {what} used up"
        return ""

    def check_price(self, model: Any) -> None:
        """Raise ValueError for a budget of dollars over a model that says (`is_priced`) that its price is not known."""
        if self.dollars is not None and not getattr(model, "is_priced", True):
            raise ValueError(
                f"a budget in dollars needs the price of {model.name}, which is in no price list: give it with "
                "RealOptions(prices=…), or limit tokens or calls"
            )
