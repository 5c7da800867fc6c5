"""The trials of a run that differ from their counterparts, read from their traces once for all that is told of them.

Calls and answers that the loop altered, and calls that it made of its own, where the blessed one did not: the score of a trial
that got over it does not show it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from whichloop.experiments.gate.data.baseline import TaskLine, stored_value
from whichloop.experiments.gate.data.outcome import AlteredCause, AlteredTrials, Became, GateResult, Side, TaskChange
from whichloop.experiments.gate.data.sides import Sides, TrialPair, show_command, stop_of
from whichloop.experiments.gate.data.troubles import hung, literal, short_arm
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.alterations import Alteration, alterations
from whichloop.metrics.trajectory.causes import Loss
from whichloop.metrics.trajectory.divergence import ended_unread, explain, first_difference, read_trial
from whichloop.metrics.trajectory.failure_text import SPENT
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, shortened, signatures
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.store.traces import Traces
from whichloop.text.numbers import trials_of

HELD_BYTES = 16 * 1024 * 1024
"""Bytes of the traces' text, as JSON, of the trials that are held: of a run with more differing trials some are read again."""

_Place = tuple[str, str, int, int]
"""Arm, task and repeat of a trial, and the repeat of the baseline that it is held against."""


class TracedTrials:
    """Reads trials of a run against their blessed courses, and holds the last ones."""

    def __init__(self, folder: Path, limits: Mapping[str, int]) -> None:
        """`folder`: the run's directory. `limits`: arm → the step limit set for its loop."""
        self.folder = folder
        self._limits = limits
        self._traces = Traces(folder)
        self._held: OrderedDict[_Place, TracedTrial] = OrderedDict()
        self._held_bytes = 0

    def read(self, record: Record, line: TaskLine, counterpart: int) -> TracedTrial:
        """Return a trial of a task, held against this repeat of the blessed task. Raises ValueError where its trace is missing or
        damaged."""
        place = (*record.key, counterpart)
        if place not in self._held:
            blessed = () if line.course is None else signatures(line.course[counterpart])
            self._hold(place, read_trial(self._traces.read(record), record, blessed, self._limits.get(record.arm)))
        return self._held[place]

    def _hold(self, place: _Place, trial: TracedTrial) -> None:
        self._held[place] = trial
        self._held_bytes += _text_bytes(trial.record)
        while self._held_bytes > HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= _text_bytes(oldest.record)


def _text_bytes(record: Record) -> int:
    """Return the length of a trial's trace in its frame."""
    return 0 if record.trace_at is None else record.trace_at[3]


ALTERED: Mapping[AlteredCause, str] = {
    "added call": "made a call of its own",
    "altered call": "altered a call",
    "altered answer": "altered the answer",
}
"""Cause → what the loop did, in words."""
DOUBLED = "calls_doubled"
"""The metric that counts the calls which the loop makes again after their result, more often than the model asked for."""


def altered_trials(traced: TracedTrials, sides: Iterable[Sides], *, paired: bool) -> tuple[AlteredTrials, ...]:
    """Return the trials in which the loop altered a call or an answer, or made a call of its own, and the blessed one did not,
    those of an arm and a cause together.

    Where trials have no counterparts (`paired`), nobody knows what the blessed loop did there.
    """
    return tuple(altered for side in sides if paired for altered in _of_arm(traced, side))


def _of_arm(traced: TracedTrials, side: Sides) -> Iterator[AlteredTrials]:
    alterations_of_arm = [(pair.record, *new) for pair in side.pairs if not pair.same for new in _new_alterations(traced, pair)]
    for cause in get_args(AlteredCause):
        of_cause = [(record, altered, step) for record, altered, step in alterations_of_arm if altered.cause == cause]
        if of_cause:
            first, altered, step = of_cause[0]
            yield AlteredTrials(
                arm=side.arm,
                cause=cause,
                trials=len({record.key for record, _, _ in of_cause}),
                of=len(side.records),
                trial=first.name,
                step=step,
                detail=altered.detail,
                command=show_command(traced.folder, side.arm, first),
            )


def _new_alterations(traced: TracedTrials, pair: TrialPair) -> Iterator[tuple[Alteration, int]]:
    """Yield what the loop altered in a trial, or added to it, with the number of its step; nothing of a trial without a trace.

    A step that the blessed trial has as often is left out: the loop made it there, too. One that it has less often is new, be it a
    call that the model rightly made once and that now stands in the place of another.
    """
    if pair.line.course is None:
        return
    try:
        trial = traced.read(pair.record, pair.line, pair.record.repeat)
    except ValueError:
        return
    in_blessed, in_trial = Counter(trial.other), Counter(step.signature for step in trial.course)
    for altered in alterations(trial):
        number, step = _step_of(trial.course, altered.event)
        if altered.cause in ALTERED and in_trial[step.signature] > in_blessed[step.signature]:
            yield altered, number


def _step_of(steps: Iterable[TracedStep], event: int) -> tuple[int, TracedStep]:
    """Return the step of an event with its number, as `whichloop show` has it; the end where no step is of it."""
    numbered = list(enumerate(steps, 1))
    return next(((number, step) for number, step in numbered if step.event == event), numbered[-1])


def altered_in_words(result: GateResult, shown_causes: Collection[AlteredCause] = ()) -> Iterator[tuple[str, str]]:
    """Yield that trials have an added or altered call, or another answer, with one of them, and the command that shows it.

    `shown_causes`: causes of which a trial is shown elsewhere; these are counted alone.
    """
    for cause in get_args(AlteredCause):
        of_cause = [each for each in result.altered if each.cause == cause]
        if of_cause:
            first, trials = of_cause[0], sum(each.trials for each in of_cause)
            of = sum(each.of for each in of_cause) if len(of_cause) == len(result.arms) else None
            others = f", such as {short_arm(first.arm)}/{first.trial.removeprefix(f'{first.arm}/')} at step {first.step}"
            sentence = _altered(trials, cause, of)
            yield (sentence, "") if cause in shown_causes else (f"{sentence}{others}: {first.detail}", first.command)


def altered_title(altered: AlteredTrials) -> str:
    """Return `finish/clean: the loop altered a call in 12 of 72 trials, and the blessed one did not`."""
    return f"{short_arm(altered.arm)}: {_altered(altered.trials, altered.cause, altered.of)}"


def altered_text(altered: AlteredTrials) -> str:
    """Return one of the trials, with what the loop made there of what the model wrote, and the command that shows it."""
    example = f"{altered.trial.removeprefix(f'{altered.arm}/')} at step {altered.step}: {altered.detail}"
    return "\n".join(map(literal, filter(None, (example, altered.command))))


def _altered(trials: int, cause: AlteredCause, of: int | None = None) -> str:
    return f"the loop {ALTERED[cause]} in {trials_of(trials, of)}, and the blessed one did not"


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
