"""The trial in which a metric other than accuracy got most worse, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorstTrial:
    """The trial in which a metric got most worse, of an arm that is held to have got worse by it, or may have."""

    arm: str
    """The arm's name in the run."""
    metric: str
    task: str
    repeat: int
    was: float
    """Its value in the baseline; where trials have no counterparts, the mean of the task."""
    now: float
    newly_solved: bool
    """Whether it is solved now and was not in the baseline; False where trials have no counterparts."""
    cause: str
    """Why, as far as the traces say it, in a clause; empty where they do not."""
    command: str
    """The command that shows the trial; empty if it has no trace to show."""
    blessed_command: str
    """The command that shows its counterpart; empty if there is none, or where the blessed run is not beside the run."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that show both sides."""
        blessed = f"{self.blessed_command} # its counterpart in the blessed run" if self.blessed_command else ""
        return tuple(filter(None, (self.command, blessed)))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)
