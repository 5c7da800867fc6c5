"""The tasks whose score or stop differs from the baseline: the trial that shows each, its cause, and the command to see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.causes import Cause, Loss
from whichloop.metrics.trajectory.divergence import ended_unread, explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import StopReason
from whichloop.runs.store.trials import Traces

from .baseline import TaskLine, stop_of, stored_value
from .reasons import hung
from .sides import Sides, show_command

Became = Literal["worse", "better", "other"]
WORST_FIRST: tuple[Became, ...] = ("worse", "better", "other")
CUT_SHORT = (StopReason.MAX_STEPS, StopReason.UNFINISHED)
"""Stops that say of no error that it ended the trial."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task whose score or stop differs from the baseline, with the trial that changed most."""

    arm: str
    task: str
    became: Became
    """The direction of its mean accuracy; other: another stop with the same accuracy."""
    was: float
    """The mean accuracy."""
    now: float
    repeat: int
    """The 0-based repeat of the trial that represents the task."""
    was_stop: str
    now_stop: str
    step: int | None
    """The 1-based step of the cause of a loss, as `whichloop show` numbers it; None for other tasks, or without a trace."""
    cause: Cause | None
    detail: str
    """The cause in words, or how a trial without a trace ended."""
    command: str
    """The command that shows the trial; empty if it has no trace to show."""

    @property
    def told(self) -> str:
        """Its ends, and the cause of a loss with the step."""
        at = f"; step {self.step}: " if self.step else "; " if self.detail else ""
        return f"{self.was_stop} → {self.now_stop}{at}{self.detail}"


def causes_of(tasks: Iterable[TaskChange]) -> dict[Cause, int]:
    """Return cause → tasks that got worse by it, the most frequent first."""
    return dict(Counter(task.cause for task in tasks if task.cause is not None).most_common())


def changed_tasks(folder: Path, limits: Mapping[str, int], sides: Iterable[Sides], *, paired: bool) -> tuple[TaskChange, ...]:
    """Return the changed tasks, the worst first. `folder`: the run's directory; `limits`: arm → the step limit of its loop."""
    traces = Traces(folder)
    found = (change for side in sides for change in _changes(folder, traces, limits.get(side.arm), side, paired=paired))
    return tuple(sorted(found, key=lambda change: WORST_FIRST.index(change.became)))


def _changes(folder: Path, traces: Traces, limit: int | None, side: Sides, *, paired: bool) -> Iterator[TaskChange]:
    for task, line in side.old.items():
        records = [record for _, record in sorted(side.new.get(task, {}).items()) if record.status == "scored"]
        known = [value for value in line.values(PRIMARY) if value is not None]
        if not records or not known:
            continue
        was = sum(known) / len(known)
        now = sum(stored_value(record, PRIMARY) or 0.0 for record in records) / len(records)
        became: Became = "other" if was == now else "worse" if now < was else "better"
        sign, values = -1.0 if became == "better" else 1.0, line.values(PRIMARY)
        best = max(range(len(values)), key=lambda k: (values[k] is not None, sign * (values[k] or 0.0)))
        trials = []
        for record in records:
            counterpart = record.repeat if paired else best
            old, new = values[counterpart], stored_value(record, PRIMARY)
            differs = became != "other" or set(line.stop) != {each.stop for each in records}
            if paired:
                differs = old is not None and (old, line.stop[counterpart]) != (new, record.stop)
            if differs:
                trials.append((sign * ((new or 0.0) - (old or 0.0)), record.repeat, record, counterpart))
        if not trials:
            continue
        _, _, record, counterpart = min(trials, key=lambda trial: trial[:2])
        loss = _loss(traces, record, line, counterpart, limit) if became == "worse" else None
        yield TaskChange(
            side.arm,
            task,
            became,
            was,
            now,
            record.repeat,
            str(line.stop[counterpart]),
            str(stop_of(record)),
            None if loss is None else loss.step or None,
            None if loss is None else loss.cause,
            record.reason if loss is None else loss.detail,
            show_command(folder, record),
        )


def _loss(traces: Traces, record: Record, line: TaskLine, counterpart: int, limit: int | None) -> Loss | None:
    """Return why a trial was lost; None where no readable trace says it."""
    blessed = line.course[counterpart].split() if line.course else ()
    try:
        trial = TracedTrial(traces.read(record), record, blessed, limit)
        steps = [step.signature for step in trial.course]
        early = None if ended_unread(trial) else _ended_early(record, blessed, steps)
        return explain(trial) if early is None else early
    except ValueError:
        return Loss(cause="time limit", detail=shortened(record.reason), step=0) if hung(record) else None


def _ended_early(record: Record, blessed: Sequence[str], steps: Sequence[str]) -> Loss | None:
    """Return that a trial ended where the blessed one, which had done and met all the same, went on: nothing that both met is the
    cause. None where that is not so."""
    before, fewer = len(steps) - 1, len(blessed) - len(steps)
    if record.stop not in CUT_SHORT or fewer <= 0 or list(blessed[:before]) != list(steps[:before]):
        return None
    detail = f"the loop ended ({record.stop}), and the blessed trial went on for {fewer} more steps"
    return Loss(cause="termination", detail=detail, step=len(steps))
