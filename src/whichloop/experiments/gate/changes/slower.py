"""Wall time under the scripted model, which no metric counts: a note tells of trials that take far longer than the blessed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from whichloop.metrics.record import Record
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import listed_names

from ..data.baseline import Baseline
from ..data.hangs import hung
from ..data.names import short_arm
from ..data.sides import Sides

TIMES_SLOWEST = 5
"""Multiple of the slowest blessed trial's time that the median trial has to take: another machine, or one with more to do, is
slower by less than that mostly."""
MIN_S = 0.5
"""Seconds below which a trial is quick, whatever the blessed ones took."""


def time_sentences(sides: Iterable[Sides], baseline: Baseline, manifest: Manifest, metrics: Iterable[str]) -> Iterator[str]:
    """Yield what no metric says of time: which arms' trials take far longer than the blessed ones, and what `seconds` counts.

    A slow machine says so too, so neither makes a run fail. Nothing of a real model, whose seconds are those of its trials, and
    nothing of slow trials where some hang: the others may only have waited for these.
    """
    models = {entry.arm: entry.model for entry in manifest.arms}
    scripted = [side for side in sides if models[side.arm] == SCRIPTED and not manifest.settings.real_time]
    slowest = None if any(hung(record) for side in scripted for record in side.records) else baseline.slowest_s
    typical_s = {side.arm: _median_s(side.records) for side in scripted}
    if slowest is not None and (slow := {arm: typical for arm, typical in typical_s.items() if is_slow(typical, slowest)}):
        arms = listed_names([f"{short_arm(arm)} ({typical:.1f} s)" for arm, typical in slow.items()])
        yield (
            f"The median trial takes far longer than the slowest blessed one ({slowest:.2f} s): {arms}. The loop waits or "
            "computes, or this machine is busy; with the scripted model no metric judges that."
        )
    if scripted and "seconds" in metrics:
        yield (
            "With the scripted model, seconds are the simulated time of slow and hanging faults alone: a loop that waits or "
            "computes for longer passes all the same."
        )


def is_slow(seconds: float, slowest_s: float) -> bool:
    """Whether so many seconds of a trial are far more than those of the slowest blessed one."""
    return seconds > max(MIN_S, TIMES_SLOWEST * slowest_s)


def _median_s(records: Iterable[Record]) -> float:
    """Return the wall time of the median scored trial, in seconds; 0 where none is scored."""
    seconds = [record.wall_s for record in records if record.status == "scored"]
    return median(seconds) if seconds else 0.0
