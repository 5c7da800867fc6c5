"""What a validation has found, and what is kept of it beside the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from whichloop.experiments.fit_profile.check import MeasureGap
from whichloop.metrics.statistics import ALPHA, Interval, interval_json
from whichloop.protocol.values import counted
from whichloop.runs.store.files import RunError, read_document

FOLDER = "validity"
"""Below the run directory."""
VALIDITY = "validity.json"
"""Beside the prediction."""
MAX_NAMED = 3
"""Misplaced pairs that the verdict names."""
DIGITS = 12
"""Decimals beyond which two means are equal."""


def units_needed(tests: int, alpha: float = ALPHA) -> int:
    """Return the fewest independent tasks with which one of so many sign-flip tests, decided together, can reject at all.

    The smallest p of such a test is 2/2ⁿ for n units, and Holm (1979) holds the smallest of all against alpha / tests.
    """
    return math.floor(math.log2(2 * tests / alpha)) + 1


@dataclass(frozen=True, slots=True)
class PairOrder:
    """Two loops that the run tells apart on the held-out tasks."""

    better: str
    worse: str
    real: Interval
    """Accuracy of the better minus that of the worse one."""
    predicted: float
    """The same in the tunnel."""

    @property
    def is_misplaced(self) -> bool:
        """Whether the tunnel has them equal, or in the other order."""
        return round(self.predicted, DIGITS) <= 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        own = {"better": self.better, "worse": self.worse, "predicted": self.predicted, "misplaced": self.is_misplaced}
        return own | {"real": self.real.as_dict()}


@dataclass(frozen=True, slots=True)
class LoopValidity:
    """One loop's accuracy in the run and in the tunnel, over the held-out tasks of both."""

    arm: str
    real: Interval
    predicted: Interval

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"arm": self.arm, "real": self.real.as_dict(), "predicted": self.predicted.as_dict()}


@dataclass(frozen=True, slots=True)
class Validity:
    """How far a prediction is right."""

    digest: str
    """Of the prediction."""
    fitted_tasks: int
    held_out_tasks: int
    """That were scored in the run and in the tunnel."""
    units: int
    """Independent ones of these: their clusters, or they themselves."""
    loops: tuple[LoopValidity, ...]
    gaps: tuple[MeasureGap, ...]
    """Run minus tunnel, of each loop and measure; all of them are one family."""
    tau: Interval | None
    """Kendall's tau-b between the loops' accuracies; None where all of one side are equal."""
    pairs: tuple[PairOrder, ...]
    """Those that the run tells apart."""
    pairs_in_all: int
    unknown_errors: Mapping[str, int]
    """Kind of error that the run has and the tunnel never had → its number in the held-out trials."""
    alpha: float = ALPHA

    @property
    def misplaced(self) -> tuple[PairOrder, ...]:
        return tuple(pair for pair in self.pairs if pair.is_misplaced)

    @property
    def off(self) -> tuple[MeasureGap, ...]:
        """Differences beyond their intervals."""
        return tuple(gap for gap in self.gaps if gap.is_off)

    @property
    def verdict(self) -> str:
        """One sentence that begins with the worst there is to say."""
        told_apart = f"The run tells {len(self.pairs):,} of {counted(self.pairs_in_all, 'pair')} of loops apart"
        if self.units < (needed := units_needed(self.pairs_in_all, self.alpha)):
            few = (
                f"{counted(self.units, 'independent task')} cannot tell any of {counted(self.pairs_in_all, 'pair')} of loops apart"
            )
            told_apart = f"{few}, whatever they scored: that takes {needed} or more"
        if self.misplaced:
            wrong = "; ".join(f"{pair.better} is better than {pair.worse}" for pair in self.misplaced[:MAX_NAMED])
            misplaced = f"{len(self.misplaced)} of them are in another order there ({wrong})"
            return f"Poor: the tunnel misplaces loops. {told_apart}, and {misplaced}."
        off = ", ".join(gap.loop for gap in self.off if gap.measure == "accuracy")
        level = f"the accuracy of {off} is off" if off else "no accuracy is beyond its interval"
        if self.units < units_needed(len(self.gaps), self.alpha):
            level = "so few tasks cannot show an accuracy to be off"
        if not self.pairs or self.tau is None or self.tau.low <= 0:
            return f"Weak: nothing speaks against the order of the loops, and little for it. {told_apart}, and {level}."
        if off:
            return f"Order right, level wrong: {level}. {told_apart}, and the tunnel has them in the same order."
        return f"Good: {level}. {told_apart}, and the tunnel has them in the same order."

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "verdict": self.verdict,
            "prediction": self.digest,
            "fitted_tasks": self.fitted_tasks,
            "held_out_tasks": self.held_out_tasks,
            "held_out_units": self.units,
            "loops": [loop.as_dict() for loop in self.loops],
            "differences": [gap.as_dict() for gap in self.gaps],
            "tau": interval_json(self.tau),
            "pairs": [pair.as_dict() for pair in self.pairs],
            "pairs_in_all": self.pairs_in_all,
            "unknown_errors": dict(self.unknown_errors),
            "alpha": self.alpha,
        }


class ValiditySummary(NamedTuple):
    """What the report of a run shows of its validation."""

    verdict: str
    loops: tuple[LoopValidity, ...]


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(float(row["value"]), float(row["low"]), float(row["high"]), int(row["n"]))


def read_summary(folder: Path) -> ValiditySummary | None:
    """Read what the last validation of a run found; None if there was none. Raises RunError for a damaged file."""
    path = folder / FOLDER / VALIDITY
    if not path.exists():
        return None
    try:
        document = read_document(path)
        loops = tuple(
            LoopValidity(str(row["arm"]), _interval(row["real"]), _interval(row["predicted"])) for row in document["loops"]
        )
        return ValiditySummary(str(document["verdict"]), loops)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: not what `whichloop validate` has written ({error}); run it again") from None
