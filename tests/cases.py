"""How many cases a property test draws whose single case takes long."""

from __future__ import annotations

from hypothesis import settings

USUAL = 10
"""Cases of a property test that says nothing else, in `make test`."""
QUICK = 6
"""The same in `make fast`."""
EXPLORED = 100
"""The same in `make explore`, which draws new ones each time."""


def cases(of_25: int) -> int:
    """Return how many cases a test draws, as a share of what the others draw: `cases(8)` are 8 where these are 25.

    At least two: the first is the simplest that there is.
    """
    return max(2, of_25 * settings.default.max_examples // 25)  # type: ignore[union-attr]  # a profile is loaded by tests/conftest.py
