"""The lines that a gate's outcome rests on, in the order in which they are told."""

from __future__ import annotations

from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY

from ..data.outcome import GateResult


def decisive(result: GateResult) -> list[GateLine]:
    """Return the lines that the outcome rests on, the weightiest first; what other arms rest on is said before.

    Beside the lines of a regression these are those of accuracy that fail as worse here, by more than their margin: the first thing
    to know of a loop that answers wrongly is what it lost, whatever another metric shows better.
    """
    told_before = {arm.arm for arm in result.arms if arm.crash_alone or arm.hang_alone or arm.limit_alone or arm.hangs}
    lines = [line for line in result.lines if line.arm not in told_before and (_has_it(result, line) or _lost_too(result, line))]
    return sorted(lines, key=lambda line: (*line.weight[:2], not _has_it(result, line), line.weight))


def _has_it(result: GateResult, line: GateLine) -> bool:
    return line.outcome == result.outcome


def _lost_too(result: GateResult, line: GateLine) -> bool:
    is_loss = line.metric == PRIMARY and line.outcome == "worse here" and not line.is_within
    return is_loss and result.outcome == "regression"
