"""Input and output tokens where a log tells their total, too, and the two do not agree.

A total may hold what a model wrote by reasoning, beside input and output: what it has more than both is counted as output. Where it
has less, the two are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .values import count

INPUT, OUTPUT, TOTAL = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"), ("total_tokens",)
"""Names of the counts in a usage, as providers write it."""


class TokenUsage(NamedTuple):
    """The tokens of a request."""

    input: int
    output: int
    """With what stands in the total only."""
    beyond_parts: int = 0
    """What the total has more than the input and the output that were told, a part of `output`; negative: what it has less."""


def with_total(input_tokens: int, output_tokens: int, total: int | None) -> TokenUsage:
    """Return input and output; what the total has more than both belongs to the output."""
    beyond = total - input_tokens - output_tokens if total else 0
    return TokenUsage(input_tokens, output_tokens + max(beyond, 0), beyond)


def usage_in(usage: Mapping[str, object], names: Sequence[Sequence[str]] = (INPUT, OUTPUT, TOTAL)) -> TokenUsage | None:
    """Return the tokens of a request by the names of input, output and total; None unless input and output are told.

    Raises ValueError for what is no count.
    """
    counts = [_first(usage, these) for these in names]
    return None if counts[0] is None or counts[1] is None else with_total(counts[0], counts[1], counts[2])


def _first(usage: Mapping[str, object], names: Sequence[str]) -> int | None:
    return next((value for name in names if (value := count(usage.get(name), name)) is not None), None)


@dataclass(frozen=True, slots=True)
class ToldTotal:
    """A trial whose total is not the sum of its input and its output."""

    place: str
    """Where it stands: `line 2`."""
    total: int
    parts: int
    """Input and output together."""


def total_is_more(name: str, totals: Sequence[ToldTotal], of: str) -> str:
    """Return what the user is told of totals that have more than input and output. `name`: the total's. `of`: `12 rows`."""
    first = totals[0]
    return (
        f"{name} is more than input + output in {len(totals):,} of {of} ({first.total:,} against {first.parts:,}, first in "
        f"{first.place}): the total is counted, and what it has more as output"
    )


def total_is_less(name: str, totals: Sequence[ToldTotal], of: str) -> str:
    """Return what is amiss where totals have less than input and output."""
    first = totals[0]
    return (
        f"{name} is less than input + output in {len(totals):,} of {of} ({first.total:,} against {first.parts:,}, first in "
        f"{first.place})"
    )
