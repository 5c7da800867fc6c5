"""How many cases a property test draws whose single case takes long."""

from __future__ import annotations

from hypothesis import settings

USUAL = 25
"""Cases of a property test that says nothing else, in `make test`."""
QUICK = 10
"""The same in `make fast`."""


def cases(few: int) -> int:
    """Return `few` for `make test`; `make explore` has four times as many, and `make fast` fewer, as of tests that say nothing."""
    return max(1, few * settings.default.max_examples // USUAL)  # type: ignore[union-attr]  # a profile is loaded by tests/conftest.py
