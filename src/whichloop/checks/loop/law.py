"""A law, and the finding of its check on a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from whichloop.protocol import Loop

Status = Literal["ok", "failed", "not applicable"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one law."""

    law: str
    status: Status
    detail: str = ""
    """The first counterexample with the correct behaviour, or why the law does not apply; empty if it holds."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


HUNG = "did not end within"
"""What is said of a run, or of a law's check, that had to be given up."""


HANGS = "the loop blocks its thread, or waits for what never comes"
"""How a check hangs where nobody knows which of the two it is."""


def hung(law: str, limit_s: float, how: str = HANGS) -> Finding:
    """Return the finding of a law whose check had to be given up after so many seconds. `how`: what the loop does, and where."""
    return Finding(law, "failed", f"its check {HUNG} {limit_s:g} s: {how}")


@dataclass(frozen=True, slots=True)
class Law:
    """A law with its check."""

    name: str
    says: str
    """The law in a sentence."""
    check: Callable[[Loop], Awaitable[None]]
    """The check, which raises Broken or NotApplicable."""


class Broken(Exception):
    """A law does not hold; the message is the counterexample with the correct behaviour."""


class NotApplicable(Exception):
    """A law does not apply to this loop; the message says why."""


def require(holds: bool, counterexample: str) -> None:
    """Raise Broken if a condition does not hold."""
    if not holds:
        raise Broken(counterexample)
