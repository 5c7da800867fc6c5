"""One canonical JSON text for a value, and its sha256: the base of every digest and key in loopbench."""

from __future__ import annotations

import hashlib
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
