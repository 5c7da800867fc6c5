"""What a scorer is: a function of one argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.task import Task


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that a scorer may look at."""

    task: Task
    answer: Any
    """The loop's answer, text or a JSON value; None where it gave none."""
    stop: str | None
    """Why the run ended, a `StopReason`."""
    state: Any = None
    """The environment's end state as JSON; None where there is none."""


Scorer = Callable[[Judgement], float]
"""Gives a value in [0, 1]."""
