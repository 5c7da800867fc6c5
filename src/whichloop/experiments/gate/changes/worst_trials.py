"""The trial in which each metric beside accuracy got most worse, for lines that a run is held to, or that are open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from whichloop.metrics.gate import GateLine
from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, PRIMARY
from whichloop.metrics.trajectory.written_calls import RequestCounts

from ..data.baseline import Baseline, stored_value
from ..data.outcome import GateArm
from ..data.sides import Sides, TrialPair, show_command
from ..data.worst_trial import WorstTrial
from .blessed_trials import BlessedTrials
from .dearer_trials import Counterpart, cause_of
from .traced_trials import TracedTrials

HELD = ("regression", "undecided")
"""Outcomes of a line of which a trial is named."""
Loss = tuple[float, float, float, Record]
"""By how much a trial got worse, both values, and its record."""


def worst_trials(
    traced: TracedTrials, baseline: Baseline, sides: Sequence[Sides], arms: Iterable[GateArm], *, paired: bool
) -> tuple[WorstTrial, ...]:
    """Return the worst trial of each line that a run is held to, or that is open, accuracy aside: its lost tasks are told.

    It is the one with the largest difference, since sums over trials are judged, and not the one with the largest ratio. Of an
    amount it is one that both sides solved, if any of these got worse: a trial that failed early took little.
    `paired`: whether trials have their counterparts; where they have none, it is one of the task whose mean got most worse.
    """
    blessed, by_arm = BlessedTrials(traced.folder, baseline), {side.arm: side for side in sides}
    lines = [line for arm in arms for line in arm.lines if line.metric != PRIMARY and line.outcome in HELD]
    candidates = (_worst(traced, blessed, by_arm[line.arm], line, paired=paired) for line in lines)
    return tuple(worst for worst in candidates if worst is not None)


def _worst(traced: TracedTrials, blessed: BlessedTrials, side: Sides, line: GateLine, *, paired: bool) -> WorstTrial | None:
    losses = _paired_losses(side, line) if paired else [*_losses_of_tasks(side, line.metric)]
    loss, was, now, record = max(losses, key=lambda each: each[0], default=(0.0, 0.0, 0.0, None))
    if record is None or loss <= 0:
        return None
    blessed_name = (side.baseline_arm, record.task, record.repeat)
    return WorstTrial(
        arm=side.arm,
        metric=line.metric,
        task=record.task,
        repeat=record.repeat,
        was=was,
        now=now,
        newly_solved=paired and any(pair.is_newly_solved for pair in side.pairs if pair.record is record),
        cause=_cause(traced, blessed, side, record) if paired else "",
        command=show_command(traced.folder, side.arm, record),
        blessed_command=blessed.command(*blessed_name) if paired else "",
    )


def _loss(metric: str, was: float, now: float) -> float:
    return was - now if metric in GAINS else now - was


def _paired_losses(side: Sides, line: GateLine) -> list[Loss]:
    """Return the losses of the trials that both sides solved, where the line is of an amount and any of these got worse; else of
    all trials."""
    of_solved = [*_losses_of(line.metric, [pair for pair in side.pairs if pair.was_solved and pair.is_solved])]
    if line.is_ratio and any(loss > 0 for loss, *_ in of_solved):
        return of_solved
    return [*_losses_of(line.metric, side.pairs)]


def _losses_of(metric: str, pairs: Iterable[TrialPair]) -> Iterator[Loss]:
    """Yield by how much each trial got worse, both values and the record."""
    for pair in pairs:
        was, now = pair.both_values(metric)
        if was is not None and now is not None:
            yield _loss(metric, was, now), was, now, pair.record


def _losses_of_tasks(side: Sides, metric: str) -> Iterator[Loss]:
    """Yield by how much each task got worse on average, both means and the record of its worst trial."""
    before, after = side.old_values(metric).means, side.new_values(metric).means
    for task in after:
        if task in before:
            measured_records = [record for record in side.new[task].values() if stored_value(record, metric) is not None]
            worst = max(measured_records, key=lambda record: _loss(metric, 0.0, stored_value(record, metric) or 0.0))
            yield _loss(metric, before[task], after[task]), before[task], after[task], worst


def _cause(traced: TracedTrials, blessed: BlessedTrials, side: Sides, record: Record) -> str:
    """Return why the trial took more; empty where no readable trace says it."""
    try:
        trial = traced.read(record, side.old[record.task], record.repeat)
    except (ValueError, OSError):
        return ""
    place = (side.baseline_arm, record.task, record.repeat)
    trace = blessed.trace(*place)
    requests = None if trace is None else RequestCounts.of(trace)
    return cause_of(trial, Counterpart(side.old[record.task], record.repeat, blessed.record(*place), requests))
