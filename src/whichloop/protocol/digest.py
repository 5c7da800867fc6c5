"""One canonical JSON text for a value, and its sha256: the base of every digest and key in whichloop."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .json_text import Encoder

SHORT_DIGITS = 12
"""Hexadecimal digits of a short digest: a value that has changed keeps it once in 10¹⁴ times."""

_ENCODER = Encoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, no white space, in ASCII. Raises TypeError or ValueError for what JSON lacks, NaN included."""
    return _ENCODER.encode(value)


def sha256(text: str) -> str:
    """Return 64 hex digits; lone surrogates count as themselves."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(value: Any) -> str:
    """Return the sha256 of the canonical JSON."""
    return sha256(canonical_json(value))


def short_digest(value: Any) -> str:
    """Return the first digits of a value's digest, to tell whether one thing has changed and not to find it among many."""
    return digest(value)[:SHORT_DIGITS]


def whole_numbers_as_int(value: Any) -> Any:
    """Return a JSON value with 3.0 as 3 at any depth, so that calls with equal numbers have the same digest."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole_numbers_as_int(item) for key, item in value.items()}
    return [whole_numbers_as_int(item) for item in value] if isinstance(value, list | tuple) else value
