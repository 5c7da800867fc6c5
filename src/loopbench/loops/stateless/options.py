"""What the options of agent, manager and loop may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raises ValueError for a value that is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")


def check_least(name: str, value: float | None, least: int) -> None:
    """Raises ValueError for a number below `least`. None is no limit, and passes."""
    if value is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_seconds(name: str, value: float | None) -> None:
    """Raises ValueError for a duration that is not above 0. None is no limit, and passes."""
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be more than 0 s, or None, not {value}")
