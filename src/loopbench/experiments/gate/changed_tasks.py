"""The tasks whose score or stop is another than in the baseline, each with the trial that tells most, where it parted, and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loopbench.metrics.record import Record
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.trajectory.divergence import Cause, cause_of, first_difference
from loopbench.metrics.trajectory.trajectory import course, signatures
from loopbench.runs.store.traces import read_trace

from .baseline import TaskLine, measured
from .outcome import Became, Side, TaskChange
from .sides import Sides, stop_of

_GRAVEST_FIRST: tuple[Became, ...] = ("worse", "better", "other")


def changes(folder: Path, sides: Iterable[Sides], *, paired: bool) -> tuple[TaskChange, ...]:
    """The gravest first; `folder`: the run's directory."""
    found = (change for side in sides for change in _changes(folder, side, paired=paired))
    return tuple(sorted(found, key=lambda change: _GRAVEST_FIRST.index(change.became)))


def _changes(folder: Path, sides: Sides, *, paired: bool) -> Iterator[TaskChange]:
    for task, line in sides.old.items():
        records = sides.new.get(task, {})
        was, now = Side(line.stop, line.accuracy), _side(records)
        trial = _same_place(was, now) if paired else _apart(was, now)
        if trial is None:
            continue
        record = records[trial.repeat]
        parted = _parted(folder, record, line, trial.counterpart, lost=_fell(was, now))
        name = shlex.quote(f"{sides.arm}/{task}/{record.repeat}")
        command = f"loopbench show {shlex.quote(str(folder))} {name}"
        yield TaskChange(sides.arm, task, was, now, record.repeat, parted.step, parted.cause, parted.detail, command)


def _side(records: Mapping[int, Record]) -> Side:
    """Trials that are missing count as not scored."""
    found = [records.get(repeat) for repeat in range(max(records, default=-1) + 1)]
    return Side(
        tuple(None if record is None else stop_of(record) for record in found),
        tuple(None if record is None else measured(record, PRIMARY) for record in found),
    )


# --- which trial tells most ---


@dataclass(frozen=True, slots=True)
class _Trial:
    repeat: int
    counterpart: int
    """Repeat of the baseline that it is held against."""


def _fell(was: Side, now: Side) -> bool:
    return was.mean is not None and now.mean is not None and now.mean < was.mean


def _rose(was: Side, now: Side) -> bool:
    return _fell(now, was)


def _same_place(was: Side, now: Side) -> _Trial | None:
    """Of trials that pair up, the one that changed most, in the task's direction; None where none changed."""
    sign = -1.0 if _rose(was, now) else 1.0
    changed = [
        (sign * (after - before), repeat)
        for repeat, (before, after) in enumerate(zip(was.accuracy, now.accuracy, strict=False))
        if before is not None and after is not None and (before, was.stops[repeat]) != (after, now.stops[repeat])
    ]
    return None if not changed else _Trial(min(changed)[1], min(changed)[1])


def _apart(was: Side, now: Side) -> _Trial | None:
    """Of trials that do not pair up, the two that lie farthest apart; None where means and stops are the same."""
    if was.mean is None or now.mean is None:
        return None
    if was.mean == now.mean and set(was.stops) == set(now.stops):
        return None
    sign = -1.0 if _rose(was, now) else 1.0
    after = min((sign * value, stop in was.stops, k) for k, (value, stop) in _scored(now))
    before = min((-sign * value, k) for k, (value, _) in _scored(was))
    return _Trial(after[-1], before[-1])


def _scored(side: Side) -> Iterator[tuple[int, tuple[float, str | None]]]:
    for repeat, (value, stop) in enumerate(zip(side.accuracy, side.stops, strict=True)):
        if value is not None:
            yield repeat, (value, stop)


# --- where it parted, and why ---


@dataclass(frozen=True, slots=True)
class _Parted:
    step: int | None = None
    cause: Cause | None = None
    detail: str = ""


def _parted(folder: Path, record: Record, line: TaskLine, counterpart: int, *, lost: bool) -> _Parted:
    """What the trial's trace says; nothing where there is none that can be read."""
    before = () if line.course is None else signatures(line.course[counterpart])
    try:
        trace = read_trace(folder, record)
        if lost:
            loss = cause_of(trace, record, before)
            return _Parted(loss.step, loss.cause, loss.detail)
        return _Parted(first_difference(before, [step.signature for step in course(trace)]) if before else None)
    except ValueError:
        return _Parted()
