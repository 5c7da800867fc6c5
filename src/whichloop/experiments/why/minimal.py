"""The smallest set of a lost trial's faults with which it is still lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whichloop.metrics.record import Record
from whichloop.models.profiles import Profile
from whichloop.protocol.values import counted, joined
from whichloop.runs.store.files import RunError

from .delta_debugging import MAX_RUNS, smallest_set
from .replay import NO_FAULTS, ReplayableTrial, Replays, landed


class SolvedAgainError(RunError):
    """A lost trial is solved when all of its faults strike again."""


@dataclass(frozen=True, slots=True)
class MinimalFaults:
    """The smallest set of faults with which a trial is lost."""

    trial: str
    """ARM/TASK/REPEAT"""
    landed: tuple[str, ...]
    """The faults that landed in the trial, KIND@ROLE:CALL."""
    faults: tuple[str, ...]
    """Those of the smallest set."""
    runs: int
    """How often the trial was run again."""
    is_smallest: bool
    """No smaller set of the landed faults loses the trial; else the runs were used up before that was known."""
    profile: Profile
    """The trial's profile with these faults alone: it loses the trial again."""

    @property
    def as_typed(self) -> str:
        """The set as `whichloop replay --faults` takes it."""
        return ",".join(self.faults) or NO_FAULTS

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        many, few = len(self.landed), len(self.faults)
        runs = f"{counted(self.runs, 'run')} of the trial"
        if not few:
            return f"{self.trial} is lost without any fault too: the {many} that landed are not why ({runs})."
        named = [f"{kind} at {point}" for kind, _, point in (text.partition("@") for text in self.faults)]
        listed = joined(named)
        which = f"{few} of its {many} landed faults" if few < many else f"all of its {many} landed faults"
        which = "its one landed fault" if many == 1 else which
        proof = (
            "No smaller set of them loses it"
            if self.is_smallest
            else "A smaller set may lose it too, but no more runs were allowed"
        )
        return f"{self.trial} is still lost with {which}: {listed}. {proof} ({runs})."

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "trial": self.trial,
            "landed": list(self.landed),
            "faults": list(self.faults),
            "runs": self.runs,
            "smallest": self.is_smallest,
            "profile": self.profile.model_dump(mode="json"),
        }


def minimal_faults(lost: ReplayableTrial, record: Record, max_runs: int = MAX_RUNS) -> MinimalFaults:
    """Find the smallest set of the faults that landed in a lost trial with which it is still lost.

    Raises SolvedAgainError if the trial is solved when all of them strike again, ValueError for `max_runs` below 2.
    """
    with lost.opened() as replays:
        return minimal_among(replays, record, max_runs)


def minimal_among(replays: Replays, record: Record, max_runs: int = MAX_RUNS) -> MinimalFaults:
    """Do the same with the event loop of `replays`, in which the trials of one loop share what it starts, such as a process."""
    lost, faults = replays.replayable, landed(record)

    def is_lost(chosen: tuple[str, ...]) -> bool:
        return not replays.run(lost.profile_with(chosen)).record.is_solved

    smallest = smallest_set(faults, is_lost, max_runs)
    if smallest.items is None:
        message = f"{record.name}: it is solved when its {len(faults)} landed faults strike again: nothing to single out"
        raise SolvedAgainError(message)
    return MinimalFaults(record.name, faults, smallest.items, smallest.runs, smallest.is_proven, lost.profile_with(smallest.items))
