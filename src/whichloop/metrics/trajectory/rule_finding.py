"""What a rule has to say about a lost trial, and the kinds of fault behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whichloop.metrics.trace import GARBAGE, Note

from .causes import Cause
from .failure_text import damaged_source
from .failures import TracedTrial, fault_of_call


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a rule has to say."""

    cause: Cause
    detail: str
    events: Sequence[int] = ()
    """What it is about; empty: the end."""
    faults: Sequence[str] | None = None
    """The kinds of fault that it came from, in time, as often as each struck; None: those of its events."""


def faults_of_events(trial: TracedTrial, places: Sequence[int]) -> list[str]:
    return [event.fault for place in places if not isinstance(event := trial.events[place], Note)]


def fault_behind_call(trial: TracedTrial, place: int) -> str:
    """Return the kind of fault that a call suffered; for noise as an argument, that of the call that gave it."""
    return fault_of_call(trial, place) or (GARBAGE if damaged_source(trial, place) else "")
