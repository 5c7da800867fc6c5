"""Tasks whose score or stop differs from the baseline, each with its most telling trial, the first different step and the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from whichloop.experiments.gate.data.troubles import hung
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.causes import Loss
from whichloop.metrics.trajectory.divergence import ended_unread, explain, first_difference
from whichloop.metrics.trajectory.failure_text import SPENT
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted

from ..data.baseline import TaskLine, stored_value
from ..data.outcome import Became, Side, TaskChange
from ..data.sides import Sides, show_command, stop_of
from .traced_trials import TracedTrials

NO_STEP = 0
"""In the place of a step, which are counted from 1, where no trace has any."""
_WORST_FIRST: tuple[Became, ...] = ("worse", "better", "other")


def changes(traced: TracedTrials, sides: Iterable[Sides], *, paired: bool) -> tuple[TaskChange, ...]:
    """Return the changed tasks, the worst first."""
    unsorted = (change for side in sides for change in _changes(traced, side, paired=paired))
    return tuple(sorted(unsorted, key=lambda change: _WORST_FIRST.index(change.became)))


def _changes(traced: TracedTrials, side: Sides, *, paired: bool) -> Iterator[TaskChange]:
    for task, line in side.old.items():
        records = side.new.get(task, {})
        was, now = Side(line.stop, line.accuracy), _side(records)
        trial = _most_changed(was, now) if paired else _farthest_apart(was, now)
        if trial is None:
            continue
        record = records[trial.repeat]
        parts_at, loss = _divergence(traced, record, line, trial.counterpart, lost=_fell(was, now))
        step, cause, detail = (None, None, "") if loss is None else (loss.step or None, loss.cause, loss.detail)
        command = show_command(traced.folder, side.arm, record)
        yield TaskChange(side.arm, task, was, now, record.repeat, step, parts_at, cause, detail, command)


CUT_SHORT = (StopReason.MAX_STEPS, StopReason.UNFINISHED)
"""Stops that say of no error that it ended the trial."""


def _ended_early(record: Record, blessed_steps: Sequence[str], steps: Sequence[str]) -> Loss | None:
    """Return that a trial ended where the blessed one, which had done and met all the same, went on: nothing that both met is the
    cause. `blessed_steps`, `steps`: signatures of their steps, the end the last. None where that is not so."""
    before, fewer = len(steps) - 1, len(blessed_steps) - len(steps)
    if record.stop not in CUT_SHORT or fewer <= 0 or list(blessed_steps[:before]) != list(steps[:before]):
        return None
    went_on = "which had met the same until then, and went on"
    too_early = f"the loop ended ({record.stop}) {counted(fewer, 'step')} before the blessed trial"
    return Loss("termination", f"{too_early}, {went_on}", len(steps))


def _untraced(record: Record) -> Loss | None:
    """Return what the record alone says: of a trial whose process was killed, as it hung, there is no trace."""
    if not hung(record):
        return None
    reason = f" ({shortened(record.reason)})" if record.reason else ""
    return Loss("time limit", f"{SPENT[StopReason.TIMEOUT]}{reason}", step=NO_STEP)


def _side(records: Mapping[int, Record]) -> Side:
    """Return one side of a task; missing trials count as not scored."""
    by_repeat = [records.get(repeat) for repeat in range(max(records, default=-1) + 1)]
    return Side(
        tuple(None if record is None else stop_of(record) for record in by_repeat),
        tuple(None if record is None else stored_value(record, PRIMARY) for record in by_repeat),
    )


# --- the most telling trial ---


@dataclass(frozen=True, slots=True)
class _Trial:
    repeat: int
    counterpart: int
    """The repeat in the baseline to compare it with."""


def _fell(was: Side, now: Side) -> bool:
    return was.mean is not None and now.mean is not None and now.mean < was.mean


def _rose(was: Side, now: Side) -> bool:
    return _fell(now, was)


def _most_changed(was: Side, now: Side) -> _Trial | None:
    """Return the paired trial that changed most in the task's direction; None if none changed."""
    sign = -1.0 if _rose(was, now) else 1.0
    changed = [
        (sign * (new - old), repeat)
        for repeat, (old, new) in enumerate(zip(was.accuracy, now.accuracy, strict=False))
        if old is not None and new is not None and (old, was.stops[repeat]) != (new, now.stops[repeat])
    ]
    return None if not changed else _Trial(min(changed)[1], min(changed)[1])


def _farthest_apart(was: Side, now: Side) -> _Trial | None:
    """Return the two unpaired trials that are farthest apart; None if means and stops are the same."""
    if was.mean is None or now.mean is None:
        return None
    if was.mean == now.mean and set(was.stops) == set(now.stops):
        return None
    sign = -1.0 if _rose(was, now) else 1.0
    new = min((sign * value, stop in was.stops, k) for k, (value, stop) in _scored(now))
    old = min((-sign * value, k) for k, (value, _) in _scored(was))
    return _Trial(new[-1], old[-1])


def _scored(side: Side) -> Iterator[tuple[int, tuple[float, str | None]]]:
    for repeat, (value, stop) in enumerate(zip(side.accuracy, side.stops, strict=True)):
        if value is not None:
            yield repeat, (value, stop)


# --- the first different step, and the cause ---


def _divergence(
    traced: TracedTrials, record: Record, line: TaskLine, counterpart: int, *, lost: bool
) -> tuple[int | None, Loss | None]:
    """Return where the trial parts from its counterpart, and why it was lost; None for what no readable trace shows."""
    try:
        trial = traced.read(record, line, counterpart)
        steps = [step.signature for step in trial.course]
        loss = _loss(trial, steps) if lost else None
    except ValueError:
        return None, _untraced(record) if lost else None
    return first_difference(trial.other, steps) if trial.other else None, loss


def _loss(trial: TracedTrial, steps: Sequence[str]) -> Loss:
    """Return why a trial with these signatures of its steps was lost."""
    early = None if ended_unread(trial) else _ended_early(trial.record, trial.other, steps)
    return explain(trial) if early is None else early
