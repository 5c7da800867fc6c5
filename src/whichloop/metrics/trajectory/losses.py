"""Why a trial was lost, and where it parts from one that was solved."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from .causes import Cause

_LOOP = re.compile(r"""'[^']*'|"[^"]*"|\bthe loop\b""")
"""What an arm is called in a sentence, and quotations, in which it stays."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a trial was lost."""

    cause: Cause
    detail: str
    """One sentence, in plain words, without its full stop."""
    step: int
    """1-based, in its own course, as `whichloop show` numbers it: the first step that the cause is about, else the last one."""
    fault: str = ""
    """Kind of fault of what it is about, such as `wire.fenced`; empty where none is known, as of a real model's replies."""

    def of(self, subject: str) -> Loss:
        """Return it in words about a loop, or about whatever else `subject` calls the arms: `agent`."""
        return replace(self, detail=_about(self.detail, subject))


@dataclass(frozen=True, slots=True)
class Divergence:
    """A task that one arm solved and another did not, in the same repeat."""

    winner: str
    """Arm."""
    loser: str
    task: str
    repeat: int
    step: int
    """As of a `Loss`: the step of the cause, whichever course the trial is held against."""
    parts_at: int
    """1-based, in the loser's course: the first step that the winner's does not have."""
    cause: Cause
    detail: str
    """One sentence, in plain words, without its full stop."""
    stop: str | None
    """The loser's."""
    fault: str = ""
    """Return it in words about a loop, or about whatever else `subject` calls the arms: `agent`."""

    def of(self, subject: str) -> Divergence:
        """Return it in words about a loop, or about whatever else `subject` calls the arms: `agent`."""
        return replace(self, detail=_about(self.detail, subject))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "winner": self.winner,
            "loser": self.loser,
            "task": self.task,
            "repeat": self.repeat,
            "step": self.step,
            "parts_at": self.parts_at,
            "cause": self.cause,
            "detail": self.detail,
            "stop": self.stop,
            "fault": self.fault,
        }


def _about(detail: str, subject: str) -> str:
    return _LOOP.sub(lambda match: f"the {subject}" if match[0] == "the loop" else match[0], detail)
