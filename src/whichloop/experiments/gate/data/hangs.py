"""Loops that hang: when the trials that there are say so, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.silent_end import is_blocked

from .names import short_arm

HANG_TRIALS = 3
"""Trials that tell that a loop hangs: the first of an arm, if all of them end at their time limit, or so many of all, wherever they
stand, if they were interrupted, since each of these hangs for sure."""

MIN_LIMIT_S = 10.0
"""Seconds that a trial may stall at least, however quick the blessed ones were."""
TIMES_SLOWEST = 20
"""Multiple of the slowest blessed trial's time that a trial may stall: another machine may be as much slower."""


def slowest_s(records: Iterable[Record]) -> float:
    """Return the wall time of the slowest scored trial, in seconds with three decimals; 0 where none is scored."""
    return round(max((record.wall_s for record in records if record.status == "scored"), default=0.0), 3)


def stall_limit_s(slowest: float) -> float:
    """Return after how many seconds without a request or a call a trial counts as hanging, by the slowest blessed one's seconds."""
    return max(MIN_LIMIT_S, float(math.ceil(TIMES_SLOWEST * slowest)))


def hung(record: Record) -> bool:
    """Whether a trial ended at its time limit, and not because infrastructure failed."""
    return record.status == "scored" and record.stop == StopReason.TIMEOUT


def was_interrupted(record: Record) -> bool:
    """Whether a trial was ended since it let nothing else run, and not since time had passed, which a slow machine may need."""
    return hung(record) and is_blocked(record.reason)


def all_hung(records: Sequence[Record], trials: int) -> bool:
    """Whether an arm's records, of so many scheduled trials, are enough to tell that it hangs, and all of them say so."""
    return len(records) >= min(HANG_TRIALS, trials) > 0 and all(map(hung, records))


def interrupted(records: Iterable[Record]) -> int:
    """Return how many trials were interrupted since they hung."""
    return sum(map(was_interrupted, records))


def hang_words(arm: str, records: Sequence[Record]) -> str:
    """Return `finish/clean hangs in each of its 3 trials (no end within 60 s)`, or `in 2 of its 14 trials`."""
    stuck = [record for record in records if hung(record)]
    reason = f" ({shortened(stuck[0].reason)})" if stuck[0].reason else ""
    each = "its one trial" if len(records) == 1 else f"each of its {counted(len(records), 'trial')}"
    if len(stuck) < len(records):
        each = f"{len(stuck)} of its {counted(len(records), 'trial')}"
    return f"{short_arm(arm)} hangs in {each}{reason}"
