"""Arms of which too few scheduled faults landed, be it since the loop altered its calls: what they lost all the same counts.

The schedule of a seed is the same for every loop, and a fault that did not land excuses no loss: the trial had it easier than
planned. So under the baseline's seed and repeats a loss of such an arm is one, where the traces of the lost trials say what they
were lost to. A score that stayed, rose, or fell within the margin shows nothing: it might be lower under all faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from whichloop.metrics.arm_warnings import short_words
from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY

from .case import GateCase
from .data.names import short_arm
from .data.outcome import GateArm, TaskChange

HAD_IT_EASIER = "its trials were easier than planned, so what got worse counts, and what did not shows nothing"
LOST = ("regression", "worse here")
UNKNOWN = (None, "other")
"""Causes of a lost trial that say nothing of what it was lost to."""


def shortfalls(case: GateCase) -> Mapping[str, str]:
    """Return arm → that too few of its scheduled faults landed, in words, where nothing else keeps from judging the run.

    Nothing where trials have no counterparts, so that the schedules are others.
    """
    if not case.paired or case.troubles(short_allowed=True):
        return {}
    summaries = {arm.info.arm: arm.summary for arm in case.run.comparison.arms}
    return {side.arm: short_words(summaries[side.arm]) for side in case.sides if summaries[side.arm].faults.short}


def lost_all_the_same(arms: Iterable[GateArm], short: Mapping[str, str], tasks: Sequence[TaskChange]) -> tuple[GateArm, ...]:
    """Return the arms, those with a shortfall held to what they lost; none at all where no arm got worse.

    `short`: arm → its shortfall in words.
    """
    held = [_held(arm, short[arm.arm], tasks) if arm.arm in short else arm for arm in arms]
    return tuple(held) if any(line.outcome in LOST for arm in held for line in arm.lines) else ()


def _held(arm: GateArm, shortfall: str, tasks: Sequence[TaskChange]) -> GateArm:
    words = f"{short_arm(arm.arm)}: {shortfall}"
    if not _has_lost(arm) or _main_cause(arm, tasks) in UNKNOWN:
        return replace(arm, lines=(), unjudged={}, claims=None, short_of_faults=f"{words}, so it is not judged")
    lines = tuple(map(_against, arm.lines))
    return replace(arm, lines=lines, short_of_faults=f"{words}: {HAD_IT_EASIER}")


def _has_lost(arm: GateArm) -> bool:
    return any(line.metric == PRIMARY and line.outcome in LOST for line in arm.lines)


def _main_cause(arm: GateArm, tasks: Sequence[TaskChange]) -> str | None:
    """Return what most of an arm's lost tasks were lost to; None without any."""
    causes = Counter(change.cause for change in tasks if change.arm == arm.arm and change.became == "worse")
    return causes.most_common(1)[0][0] if causes else None


def _against(line: GateLine) -> GateLine:
    """Return a line as it is where it is held against the arm, else left open."""
    if line.outcome in LOST:
        return line
    return replace(line, outcome="undecided", better=False, outlook=None, more_repeats=None)
