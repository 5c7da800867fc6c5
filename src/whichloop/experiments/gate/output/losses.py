"""What a run lost, by what it was lost to: new crashes, tasks by their causes, other stops; for CI servers, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whichloop.experiments.gate.data.names import literal, short_arm
from whichloop.experiments.gate.data.outcome import GateResult, StopChange, TaskChange
from whichloop.protocol.values import counted
from whichloop.text.numbers import first_of

from .stop_words import beside_losses, broken_by, groups, trials
from .text import MAX_TASKS, task_text


def lost_otherwise(result: GateResult) -> list[list[TaskChange]]:
    """Return the tasks that got worse without a new crash or hang, those of one arm and cause together, the largest group first."""
    broke = {(change.arm, change.task) for change in result.stops if change.broke}
    return lost(change for change in result.tasks if (change.arm, change.task) not in broke)


def other_ends(result: GateResult) -> list[list[StopChange]]:
    """Return the other stops that are neither crashes nor hangs, nor told with a lost task, those of one kind together."""
    return groups(change for change in beside_losses(result) if not change.broke)


def break_groups(result: GateResult) -> list[list[StopChange]]:
    """Return the trials that crash or hang now and did not, those of one arm and exception or place together, the largest group
    first."""
    by_kind: dict[tuple[str, ...], list[StopChange]] = {}
    for change in result.stops:
        if change.broke:
            by_kind.setdefault((change.arm, *broken_by(change)), []).append(change)
    return sorted(by_kind.values(), key=len, reverse=True)


def lost(changes: Iterable[TaskChange]) -> list[list[TaskChange]]:
    """Return the tasks that got worse, those of one arm and cause together, the largest group first."""
    by_cause: dict[tuple[str, str | None], list[TaskChange]] = {}
    for change in changes:
        if change.became == "worse":
            by_cause.setdefault((change.arm, change.cause), []).append(change)
    return sorted(by_cause.values(), key=len, reverse=True)


def cause_title(group: Sequence[TaskChange]) -> str:
    """Return `finish/clean: 12 tasks worse by parse`."""
    return f"{short_arm(group[0].arm)}: {counted(len(group), 'task')} worse by {group[0].cause or 'a cause that no trace shows'}"


def cause_text(group: Sequence[TaskChange]) -> str:
    """Return the first task with its command, and the names of some others."""
    first, *others = group
    likewise = first_of([literal(change.task) for change in others], MAX_TASKS)
    return "\n".join([task_text(first), *([f"likewise: {likewise}"] if others else [])])


def stop_text(group: Sequence[StopChange]) -> str:
    """Return the trials of one kind of other stop, and the command that shows the first."""
    return "\n".join(map(literal, filter(None, (trials(group, MAX_TASKS), group[0].command))))
