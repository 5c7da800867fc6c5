"""How much of the growth of an amount is of trials that are solved now and were not, of lines that fail a run or are open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from whichloop.metrics.gate import GateLine

from ..data.growth import Growth
from ..data.outcome import GateArm
from ..data.sides import Sides
from .worst_trials import HELD


def growths(sides: Sequence[Sides], arms: Iterable[GateArm], *, paired: bool) -> Iterator[Growth]:
    """Yield the growth of each such amount that grew in an arm in which trials are solved now and were not.

    `paired`: whether trials have their counterparts; without these nobody knows which trials are newly solved.
    """
    by_arm = {side.arm: side for side in sides}
    lines = [line for arm in arms for line in arm.lines if line.is_ratio and line.outcome in HELD]
    for line in lines if paired else ():
        growth = _growth(by_arm[line.arm], line)
        if growth.newly_solved and growth.of_all > 0:
            yield growth


def _growth(side: Sides, line: GateLine) -> Growth:
    both = [(pair, *pair.both_values(line.metric)) for pair in side.pairs if pair.is_scored]
    amounts = [(pair, was, now) for pair, was, now in both if was is not None and now is not None]
    newly_solved = [(was, now) for pair, was, now in amounts if pair.is_newly_solved]
    return Growth(
        arm=side.arm,
        metric=line.metric,
        newly_solved=len(newly_solved),
        of_newly_solved=math.fsum(now - was for was, now in newly_solved),
        of_all=math.fsum(now - was for _, was, now in amounts),
        solved_before=sum(pair.was_solved for pair, _, _ in amounts),
        solved_now=sum(pair.is_solved for pair, _, _ in amounts),
        before=math.fsum(was for _, was, _ in amounts),
        now=math.fsum(now for _, _, now in amounts),
    )
