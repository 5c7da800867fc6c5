"""Other stops in words. Reasons and names may come from a model or from code: whoever prints these lines makes them literal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loopbench.metrics.trajectory.trajectory import shortened
from loopbench.protocol.counts import counted
from loopbench.text.counts import counts, listed

from .names import short_arm
from .outcome import GateArm, GateResult, StopChange

MAX_GROUPS = 3
"""Kinds of other stops that the short form names."""
MAX_TRIALS = 5
"""Trials of a kind that it names."""


def crashes(changes: Iterable[StopChange], trials: int) -> Iterator[str]:
    """Yield how many of so many trials crash that did not crash in the baseline, with the most frequent exception."""
    new = [change for change in changes if change.crashed]
    if not new:
        return
    reasons = [change.reason for change in new]
    first = max(new, key=lambda change: reasons.count(change.reason))
    raised = f" ({shortened(first.reason)})" if first.reason else ""
    others = len(set(reasons)) - 1
    more = f" and {counted(others, 'other exception')}" if others else ""
    if len(new) == trials:
        yield f"every trial crashes now{raised}{more}"
        return
    example = f"{short_arm(first.arm)}/{first.task}/{first.repeat}"
    yield f"{counted(len(new), 'trial crashes', 'trials crash')} now{raised}{more}, such as {example}"


def stops_alone(result: GateResult) -> Iterator[str]:
    """Yield why an arm is undecided of which no score changed: trials end more gravely."""
    for arm in result.arms:
        if arm.stop_alone:
            yield f"{short_arm(arm.arm)}: no score changed. It is undecided, and not unchanged, since {_ends(result, arm)}."


def crashes_alone(result: GateResult) -> Iterator[str]:
    """Yield that a new crash is a regression within the margins, too; the first line counts them."""
    if crashed := [short_arm(arm.arm) for arm in result.arms if arm.crash_alone]:
        arms = f"{listed(crashed)}: " * (len(crashed) < len(result.arms))
        crash = "A crash" if not arms else "a crash"
        yield f"{arms}{crash} that the baseline does not have is a regression, whatever the margins say."


def _ends(result: GateResult, arm: GateArm) -> str:
    graver = [change for change in result.stops if change.arm == arm.arm and change.graver]
    found = counts({course: [change.course for change in graver].count(course) for course in {c.course for c in graver}})
    return f"{counted(len(graver), 'trial ends', 'trials end')} more gravely than in the baseline ({found})"


def beside_losses(result: GateResult) -> list[StopChange]:
    """Return the other stops of tasks that did not get worse: a crash that lost its task is told among the lost ones."""
    lost = {(change.arm, change.task) for change in result.tasks if change.became == "worse"}
    return [change for change in result.stops if (change.arm, change.task) not in lost]


def shown_stops(result: GateResult) -> list[StopChange]:
    """Return all new crashes, and the other stops of tasks that did not get worse."""
    beside = beside_losses(result)
    return [change for change in result.stops if change.crashed or change in beside]


def groups(changes: Iterable[StopChange]) -> list[list[StopChange]]:
    """Return the changes of one arm, course and score together, or of one arm and exception, in the order of their first ones."""
    found: dict[tuple[str, ...], list[StopChange]] = {}
    for change in changes:
        how = ("crashed",) if change.crashed else (change.course, str(change.same_score))
        found.setdefault((change.arm, change.reason, *how), []).append(change)
    return list(found.values())


def title(group: Sequence[StopChange]) -> str:
    """Return `finish/clean: 2 trials with the same score, finished → max_steps`, or `…: 2 trials crash now (KeyError: 'x')`."""
    first = group[0]
    if first.crashed:
        raised = f" ({shortened(first.reason)})" if first.reason else ""
        return f"{short_arm(first.arm)}: {counted(len(group), 'trial crashes', 'trials crash')} now{raised}"
    score = " with the same score" * first.same_score
    raised = f" ({shortened(first.reason)})" if first.reason else ""
    return f"{short_arm(first.arm)}: {counted(len(group), 'trial')}{score}, {first.course}{raised}"


def trials(group: Sequence[StopChange], most: int) -> str:
    """Return the names of the first trials, task and repeat, and how many more there are."""
    names = [f"{change.task}/{change.repeat}" for change in group[:most]]
    return ", ".join([*names, *([f"and {len(group) - most} more"] if len(group) > most else [])])


def stop_lines(changes: Sequence[StopChange], most: int, most_trials: int) -> list[tuple[str, str]]:
    """Return a line and the command that shows the first trial, for each kind of other stop; the last line counts what is left."""
    found = groups(changes)
    lines = [(f"{title(group)}: {trials(group, most_trials)}", group[0].command) for group in found[:most]]
    rest = [change for group in found[most:] for change in group]
    how = ("crashes now", "crash now") if all(change.crashed for change in rest) else ("has another stop", "have another stop")
    left = counted(len(rest), f"more trial {how[0]}", f"more trials {how[1]}")
    return [*lines, *([(f"and {left}; --json has all", "")] if rest else [])]
