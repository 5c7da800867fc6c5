"""How much of what a metric grew by was spent on trials that are solved now and were not, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Growth:
    """What an arm took more of an amount, such as tokens, where some of its trials are solved now that were not."""

    arm: str
    """The arm's name in the run."""
    metric: str
    newly_solved: int
    """Trials that are solved now and were not in the baseline."""
    of_newly_solved: float
    """How much more these took than in the baseline; negative if less."""
    of_all: float
    """How much more all trials took; above 0."""
    solved_before: int
    """Trials that were solved in the baseline."""
    solved_now: int
    before: float
    """What all trials took in the baseline, those that were not solved included."""
    now: float

    @property
    def per_solved_before(self) -> float | None:
        """What a solved trial took in the baseline, those that were not solved being paid with it; None where none was solved."""
        return self.before / self.solved_before if self.solved_before else None

    @property
    def per_solved_now(self) -> float:
        """The same in the run, where some trials are solved."""
        return self.now / self.solved_now

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self) | {"per_solved_before": self.per_solved_before, "per_solved_now": self.per_solved_now}
