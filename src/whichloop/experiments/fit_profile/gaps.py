"""How far two runs of the same loops are apart, measure by measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from whichloop.metrics.families import judge_family
from whichloop.metrics.paired import SCORES, PairedFlip
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import task_values

MEASURES: Mapping[str, Callable[[Record], float]] = {
    "calls": lambda record: record.lm_calls,
    "accuracy": lambda record: record.accuracy,
    "errors": lambda record: sum(record.errors.values()),
}
"""What a trial is compared in: calls of the model, the primary score, and errors of any kind."""


@dataclass(frozen=True, slots=True)
class MeasureGap:
    """How far one measure of one loop is off under the fitted profile."""

    loop: str
    measure: str
    run: float
    """Mean over the tasks of both."""
    again: float
    """The same under the profile."""
    difference: Interval
    """Run minus profile, at the level that the family leaves it: it holds 0 unless the measure is off."""
    is_off: bool

    @property
    def between(self) -> str:
        """The difference with its interval."""
        value, low, high = (round(end, 2) + 0.0 for end in (self.difference.value, self.difference.low, self.difference.high))
        return f"{value:+z.2f} [{low:+z.2f}, {high:+z.2f}]"

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "loop": self.loop,
            "measure": self.measure,
            "run": self.run,
            "profile": self.again,
            "difference": self.difference.as_dict(),
            "off": self.is_off,
        }


class _Pair(NamedTuple):
    """One measure of one loop, task by task in both runs."""

    loop: str
    measure: str
    run: list[float]
    again: list[float]
    clusters: list[str]

    @property
    def flip(self) -> PairedFlip:
        gaps = [a - b for a, b in zip(self.run, self.again, strict=True)]
        return PairedFlip(gaps, self.clusters, reach=SCORES if self.measure == "accuracy" else None)


def compare_records(
    names: Mapping[str, str],
    before: Sequence[Record],
    again: Sequence[Record],
    alpha: float,
    measures: Mapping[str, Callable[[Record], float]] = MEASURES,
) -> tuple[MeasureGap, ...]:
    """Compare arms over the tasks scored in both runs; `names`: an arm of the run → that under the profile.

    Raises ValueError if no task was scored in both.
    """
    pairs = []
    for arm, name in names.items():
        for measure, value in measures.items():
            first = task_values([record for record in before if record.arm == arm], value).means
            second = task_values([record for record in again if record.arm == name], value)
            tasks = sorted(first.keys() & second.means.keys())  # trials end in any order, and sums of floats follow it
            if tasks:
                sides = [first[task] for task in tasks], [second.means[task] for task in tasks]
                pairs.append(_Pair(name.rpartition("/")[0], measure, *sides, [second.clusters[task] for task in tasks]))
    if not pairs:
        raise ValueError("no task was scored in both; the scripted model needs plans for them")
    decided = judge_family([(pair.flip, 0.0) for pair in pairs], alpha)
    return tuple(
        MeasureGap(pair.loop, pair.measure, fmean(pair.run), fmean(pair.again), decision.difference, decision.p_holm < alpha)
        for pair, decision in zip(pairs, decided, strict=True)
    )
