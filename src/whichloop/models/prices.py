"""What tokens cost, and tables of one's own.

A price as it is typed is `0.15/0.60` or `0.15/0.60/0.075`, and as a run keeps it `openai/gpt-4o-mini=0.15/0.6/0.075`.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

from whichloop.protocol import Usage
from whichloop.protocol.files import read_bounded
from whichloop.protocol.values import one_line

FORM = "INPUT/OUTPUT or INPUT/OUTPUT/CACHED, in US dollars per million tokens, such as 0.15/0.60/0.075"
KEYS = ("input", "output", "cached_input")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """The price for input from the provider's cache; None: as for any input."""
    name: str = ""
    """The model whose price it is; empty for nobody's."""

    def __post_init__(self) -> None:
        """Raise ValueError for a price that is no number of dollars, or one of cached input above that of input."""
        for name in KEYS if self.cached_input is not None else KEYS[:2]:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} must be a number of US dollars per million tokens, not {value!r}")
        if self.cached_input is not None and self.cached_input > self.input:
            raise ValueError(f"cached_input must not exceed input: {self.cached_input} > {self.input}")

    def on(self, usage: Usage) -> Usage:
        """Price a usage: what is billed, and what it would have cost had nothing come from a cache."""
        return usage.priced(self.input, self.output, self.cached_input)

    def __str__(self) -> str:
        amounts = "/".join(f"{amount:.12g}" for amount in (self.input, self.output, self.cached_input) if amount is not None)
        return f"{self.name}={amounts}" if self.name else amounts


def read_prices(path: Path) -> dict[str, Price]:
    """Read prices by model name, from a TOML file with a table for each.

        ["openai/gpt-4o-mini"]
        input = 0.15
        output = 0.6
        cached_input = 0.075

    Raises ValueError, in one line.
    """
    try:
        tables = tomllib.loads(read_bounded(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"prices {path}: {one_line(reason)}") from None
    prices: dict[str, Price] = {}
    for name, table in tables.items():
        if not isinstance(table, dict) or not {"input", "output"} <= table.keys() <= set(KEYS):
            raise ValueError(f'prices {path}: {name!r}: write ["PROVIDER/MODEL"], below it input, output and maybe cached_input')
        try:
            prices[name] = Price(**table)
        except ValueError as error:
            raise ValueError(f"prices {path}: {name!r}: {error}") from None
    return prices


def read_tag(text: str) -> Price | None:
    """Read a price as it is typed; None for the name of a model alone. Raises ValueError for an amount that is none."""
    name, has_name, amounts = text.rpartition("=")
    try:
        numbers = [float(part) for part in amounts.split("/")]
    except ValueError:
        if not has_name:
            return None
        numbers = []
    if len(numbers) not in (2, 3) or not any(numbers[:2]) or (has_name and not name.strip()):
        raise ValueError(f"write {FORM}, or the name of a model, or NAME=INPUT/OUTPUT, not {text!r}; not both are 0")
    return Price(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else None, name.strip())
