"""Seeded draws without a generator: a key in, a number out, the same on every machine and in any order."""

from __future__ import annotations

import hashlib


def unit(*key: object) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    text = "\x1f".join(map(str, key))
    raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(raw[:8], "big") / 2**64


def derived_seed(*key: object) -> int:
    """Return a 32-bit seed that depends on the key alone."""
    return int(unit(*key) * 2**32)
