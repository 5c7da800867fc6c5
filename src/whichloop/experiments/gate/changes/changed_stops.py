"""Trials that end otherwise than in the baseline: with the same score, or by a crash or a hang that is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from whichloop.metrics.record import Record
from whichloop.protocol import StopReason

from ..data.hangs import hung
from ..data.outcome import StopChange
from ..data.sides import Sides, show_command, stop_of

ANSWERED, LIMITED, FAILED, CRASHED = range(4)
GRAVITY: Mapping[str, int] = MappingProxyType(
    {
        StopReason.FINISHED: ANSWERED,
        StopReason.FORCED: ANSWERED,
        StopReason.MAX_STEPS: LIMITED,
        StopReason.UNFINISHED: LIMITED,
        StopReason.BUDGET: LIMITED,
        StopReason.CRASHED: CRASHED,
    }
)
"""How grave a stop is: the model answered, a limit that the user set was reached, or the loop crashed; all other stops failed."""


ERRORED = "errored"
"""In the place of a stop, for a trial that infrastructure made fail."""


def is_graver(was: str | None, now: str | None) -> bool:
    """Whether a trial ends more gravely than it did: by a limit in place of an answer, by a failure, or by a crash."""
    return was is not None and now is not None and GRAVITY.get(now, FAILED) > GRAVITY.get(was, FAILED)


def stop_changes(
    folder: Path, sides: Iterable[Sides], *, paired: bool, hangs: Callable[[Record], bool] = hung
) -> tuple[StopChange, ...]:
    """Return the trials of the same score that stop otherwise, all that crash where the baseline's did not, and all that hang where
    no trial of the arm did in the baseline; the gravest first.

    `folder`: the run's directory. `hangs`: whether a trial hangs, for sure. Where trials have no counterparts (`paired`), only
    crashes of tasks that never crashed in the baseline are known to be new.
    """
    changes = [change for side in sides for change in (_paired(folder, side, hangs) if paired else _new_crashes(folder, side))]
    return tuple(sorted(changes, key=lambda change: (not change.crashed, not change.hangs, not change.graver)))


def _paired(folder: Path, side: Sides, hangs: Callable[[Record], bool]) -> Iterator[StopChange]:
    for pair in side.pairs:
        was, now = pair.line.stop[pair.record.repeat], stop_of(pair.record)
        if now is None or was == now:
            continue
        hung_now = not side.hung_before and hangs(pair.record)
        if now == StopReason.CRASHED or hung_now or (was is not None and pair.same_score):
            yield replace(_change(folder, side.arm, pair.record, was or ERRORED, same_score=pair.same_score), hangs=hung_now)


def _new_crashes(folder: Path, side: Sides) -> Iterator[StopChange]:
    for record in side.records:
        before = [stop for stop in side.old[record.task].stop if stop is not None] if record.task in side.old else []
        if before and stop_of(record) == StopReason.CRASHED and StopReason.CRASHED not in before:
            yield _change(folder, side.arm, record, max(before, key=before.count), same_score=False)


def _change(folder: Path, arm: str, record: Record, was: str, *, same_score: bool) -> StopChange:
    now = str(record.stop)
    return StopChange(
        arm=arm,
        task=record.task,
        repeat=record.repeat,
        was=was,
        now=now,
        same_score=same_score,
        graver=now == StopReason.CRASHED or is_graver(was, now),
        reason=record.reason,
        command=show_command(folder, arm, record),
    )
