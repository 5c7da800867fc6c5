"""What a law is, and what comes of holding it against a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from loopbench.protocol import Loop

Status = Literal["ok", "failed", "not applicable"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one law found."""

    law: str
    status: Status
    detail: str = ""
    """The first counterexample, with what would be right; or why the law does not apply. Empty where it holds."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Law:
    """One law."""

    name: str
    says: str
    """The law in a sentence."""
    check: Callable[[Loop], Awaitable[None]]
    """Raises Broken and NotApplicable."""


class Broken(Exception):
    """A law does not hold; the message is the counterexample, with what would be right."""


class NotApplicable(Exception):
    """A law that says nothing about this loop; the message says why."""


def require(holds: bool, counterexample: str) -> None:
    """Raises Broken where something does not hold."""
    if not holds:
        raise Broken(counterexample)
