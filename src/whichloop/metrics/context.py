"""What a loop does with its context: does it keep results as long as they are needed, and do prompts keep their beginning?

**Retention** is the share of results that a prompt still shows when it needs them. A prompt needs a planned call's result if it
asks what is left to do, or for the answer, and the trial has been given the result before: a model that does not see it makes the
call again, or answers without it. It shows the result if a scripted model can read there all that is still to be used of it (see
`whichloop.models.receipts`), so retention is known of trials with a scripted model alone. The distance is the number of such
prompts since the result was given last; a loop that drops, cuts or summarizes what is old loses results at long distances.
Prompts of a branch, which a loop sends beside others, are left out: a branch gets a part of the context on purpose.

**Prefix stability** is the share of the bytes of a trial's prompts, those after the first, that repeat the beginning of an earlier
prompt of the trial byte for byte. A prompt is its tools, its response schema and its messages: the order in which providers cache.

**Tokens with a cache** are what a trial's tokens come to under a provider's prompt cache: of a prompt that repeats the beginning of
an earlier one for at least `MIN_CACHED_TOKENS`, the tokens of that beginning count for `CACHE_READ` each. Both numbers are those
of OpenAI's and Anthropic's pages on prompt caching. What Anthropic adds to the price of a token that is written to the cache is
left out, and so is that a cache is emptied after minutes without a request: the number says what a loop's prompts allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from .record import Record
from .record_table import alike

CACHE_READ: Final = 0.1
"""Price of an input token that is read from a provider's prompt cache, as a share of the full price."""
MIN_CACHED_TOKENS: Final = 1_024
"""Tokens that a prompt must share with an earlier one before a provider reads them from its cache."""
_STARTS = (1, 2, 3, 5, 9, 17)
DISTANCES: Final = (*(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(_STARTS)), f"{_STARTS[-1]}+")
"""Ranges of distances, in prompts: 1, 2, 3-4, 5-8, 9-16, 17+."""
_RANGES = tuple(DISTANCES[max(sum(start <= distance for start in _STARTS), 1) - 1] for distance in range(_STARTS[-1] + 1))
"""The range of each distance up to the last start."""


def distance_range(distance: int) -> str:
    """Return the range that a distance of 1 or more lies in."""
    return _RANGES[min(distance, _STARTS[-1])]


def retention(record: Record) -> float | None:
    """Return results shown / results needed, over all prompts of a trial; None where no result was needed."""
    needed = sum(record.results_needed.values())
    return min(1.0, sum(record.results_shown.values()) / needed) if needed else None


def retention_at(record: Record, distance: str) -> float | None:
    """Return the same for one range of distances."""
    needed = record.results_needed.get(distance, 0)
    return min(1.0, record.results_shown.get(distance, 0) / needed) if needed else None


def prefix_stability(record: Record) -> float | None:
    """Return repeated bytes / bytes of all prompts after the first; None where there are none."""
    if record.repeated_bytes is None or not record.later_bytes:
        return None
    return min(1.0, record.repeated_bytes / record.later_bytes)


def tokens_with_cache(record: Record) -> float | None:
    """Return input - (1 - `CACHE_READ`) × cacheable + output tokens; None where the prompts are not known."""
    if record.cacheable_tokens is None:
        return None
    return record.tokens - (1 - CACHE_READ) * min(record.cacheable_tokens, record.input_tokens)


def served_by_cache(scored: Sequence[Record]) -> Mapping[str, float]:
    """Return measure → the share of the input tokens of scored trials that a prompt cache serves, where that is known of each.

    Of `tokens_with_cache` it is what a cache could serve, of `cost_usd` what the prices were told that it served. Nothing is told
    of dollars where a trial cost less than uncached though no cache served it: then its replies came from a recording.
    """
    records = list(alike(scored))
    input_tokens = sum(record.input_tokens for record in records)
    if not input_tokens:
        return {}
    cacheable = [record.cacheable_tokens for record in records]
    known_tokens = [tokens for tokens in cacheable if tokens is not None]
    shares = {}
    if len(known_tokens) == len(records):
        served = sum(min(tokens, record.input_tokens) for tokens, record in zip(known_tokens, records, strict=True))
        shares["tokens_with_cache"] = served / input_tokens
    if all(is_priced_by_cache(record) for record in records):
        shares["cost_usd"] = sum(record.cached_tokens for record in records) / input_tokens
    return shares


def is_priced_by_cache(record: Record) -> bool:
    """Whether a trial's dollars are known with a cache and without one, and nothing but a cache makes the difference."""
    if record.cost_usd is None or record.nominal_usd is None:
        return False
    return record.cached_tokens > 0 or record.cost_usd >= record.nominal_usd
