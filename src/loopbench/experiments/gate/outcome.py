"""What the gate says: plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from loopbench.metrics.gate import GateLine
from loopbench.metrics.trajectory.divergence import Cause

Outcome = Literal["identical", "pass", "regression", "undecided", "invalid"]
Became = Literal["worse", "better", "other"]


@dataclass(frozen=True, slots=True)
class Side:
    """What one task gave, a value per repeat; None for a trial that was not scored."""

    stops: tuple[str | None, ...]
    accuracy: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """Accuracy; None where no trial was scored."""
        known = [value for value in self.accuracy if value is not None]
        return sum(known) / len(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"stops": list(self.stops), "accuracy": list(self.accuracy)}


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task whose score or stop is another than in the baseline."""

    arm: str
    """In the run."""
    task: str
    was: Side
    now: Side
    repeat: int
    """Of the trial that is shown for it, 0-based."""
    step: int | None
    """Of that trial's course, 1-based: where it parts from the baseline's; of one that got worse without a course in the baseline,
    what its cause is about. None where that is not known."""
    cause: Cause | None
    """Of a task that got worse; None where there is no trace."""
    detail: str
    """The cause in a sentence."""
    command: str
    """Shows the trial."""

    @property
    def became(self) -> Became:
        """By its mean accuracy; other: another stop with the same accuracy."""
        was, now = self.was.mean, self.now.mean
        if was is None or now is None or was == now:
            return "other"
        return "worse" if now < was else "better"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "arm": self.arm,
            "task": self.task,
            "became": self.became,
            "was": self.was.to_json(),
            "now": self.now.to_json(),
            "repeat": self.repeat,
            "step": self.step,
            "cause": self.cause,
            "detail": self.detail,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class GateArm:
    """One arm of the baseline, and what became of it."""

    arm: str
    """In the run."""
    baseline_arm: str
    identical: bool
    """Every trial gave what it gave in the baseline."""
    trials: int
    scored: int
    lines: tuple[GateLine, ...]
    """One per metric."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "arm": self.arm,
            "baseline_arm": self.baseline_arm,
            "identical": self.identical,
            "trials": self.trials,
            "scored": self.scored,
            "metrics": [line.to_json() for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate says."""

    outcome: Outcome
    reasons: tuple[str, ...]
    """Why it is invalid; empty otherwise."""
    arms: tuple[GateArm, ...]
    """Empty where it is invalid."""
    tasks: tuple[TaskChange, ...]
    """Those whose score or stop changed: worse ones first, then better ones, then the rest."""
    same_result: int
    """Trials of the same score and stop that differ otherwise: in steps, tokens, calls, answers. Only where trials pair up."""
    notes: tuple[str, ...]
    run: Path
    baseline: Path | None
    alpha: float
    paired: bool
    """Seed and repeats are the baseline's: every trial has its counterpart."""

    @property
    def lines(self) -> tuple[GateLine, ...]:
        return tuple(line for arm in self.arms for line in arm.lines)

    @property
    def causes(self) -> dict[str, int]:
        """Cause → tasks that got worse by it, the most frequent first."""
        return dict(Counter(task.cause for task in self.tasks if task.cause is not None).most_common())

    def to_json(self) -> dict[str, Any]:
        """The object that `gate --json` prints: names stay stable."""
        return {
            "outcome": self.outcome,
            "reasons": list(self.reasons),
            "run": str(self.run.resolve()),
            "baseline": None if self.baseline is None else str(self.baseline.resolve()),
            "alpha": self.alpha,
            "paired": self.paired,
            "arms": [arm.to_json() for arm in self.arms],
            "tasks": [task.to_json() for task in self.tasks],
            "causes": self.causes,
            "same_result": self.same_result,
            "notes": list(self.notes),
        }
