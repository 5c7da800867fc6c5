"""Calls and answers that the loop altered, and calls that it made of its own, where the blessed one did not: the score of a trial
that got over it does not show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

from loopbench.metrics.trajectory.alterations import Alteration, alterations
from loopbench.metrics.trajectory.divergence import read_trial
from loopbench.metrics.trajectory.trajectory import TracedStep, signatures
from loopbench.runs.store.traces import Traces
from loopbench.text.counts import trials_of

from ..data.literal import literal
from ..data.names import short_arm
from ..data.outcome import AlteredCause, AlteredTrials, GateResult
from ..data.sides import Sides, TrialPair, show_command

ALTERED: Mapping[AlteredCause, str] = {
    "added call": "made a call of its own",
    "altered call": "altered a call",
    "altered answer": "altered the answer",
}
"""Cause → what the loop did, in words."""


def altered_trials(folder: Path, sides: Iterable[Sides], *, paired: bool) -> tuple[AlteredTrials, ...]:
    """Return the trials in which the loop altered a call or an answer, or made a call of its own, and the blessed one did not,
    those of an arm and a cause together.

    `folder`: the run's directory. Where trials have no counterparts (`paired`), nobody knows what the blessed loop did there.
    """
    traces = Traces(folder)
    return tuple(found for side in sides if paired for found in _of_arm(traces, side))


def _of_arm(traces: Traces, side: Sides) -> Iterator[AlteredTrials]:
    new = [(pair, *found) for pair in side.pairs if not pair.same for found in _new(traces, pair)]
    for cause in get_args(AlteredCause):
        those = [(pair, altered, step) for pair, altered, step in new if altered.cause == cause]
        if those:
            pair, altered, step = those[0]
            yield AlteredTrials(
                arm=side.arm,
                cause=cause,
                trials=len({one.record.key for one, _, _ in those}),
                of=len(side.records),
                trial=pair.record.name,
                step=step,
                detail=altered.detail,
                command=show_command(traces.folder, side.arm, pair.record),
            )


def _new(traces: Traces, pair: TrialPair) -> Iterator[tuple[Alteration, int]]:
    """Yield what the loop altered in a trial, or added to it, with the number of its step; nothing of a trial without a trace.

    A step that the blessed trial has as often is left out: the loop made it there, too. One that it has less often is new, be it a
    call that the model rightly made once and that now stands in the place of another.
    """
    if pair.line.course is None:
        return
    blessed = Counter(signatures(pair.line.course[pair.record.repeat]))
    try:
        trial = read_trial(traces.read(pair.record), pair.record, tuple(blessed))
    except ValueError:
        return
    made = Counter(step.signature for step in trial.course)
    for altered in alterations(trial):
        number, step = _step_of(trial.course, altered.event)
        if altered.cause in ALTERED and made[step.signature] > blessed[step.signature]:
            yield altered, number


def _step_of(steps: Iterable[TracedStep], event: int) -> tuple[int, TracedStep]:
    """Return the step of an event with its number, as `loopbench show` has it; the end where no step is of it."""
    numbered = list(enumerate(steps, 1))
    return next(((number, step) for number, step in numbered if step.event == event), numbered[-1])


def altered_in_words(result: GateResult) -> Iterator[tuple[str, str]]:
    """Yield that trials have an added or altered call, or another answer, with one of them, and the command that shows it."""
    for cause in get_args(AlteredCause):
        found = [each for each in result.altered if each.cause == cause]
        if found:
            first, trials = found[0], sum(each.trials for each in found)
            of = sum(each.of for each in found) if len(found) == len(result.arms) else None
            others = f", such as {short_arm(first.arm)}/{first.trial.removeprefix(f'{first.arm}/')} at step {first.step}"
            yield f"{_altered(trials, cause, of)}{others}: {first.detail}", first.command


def altered_title(found: AlteredTrials) -> str:
    """Return `finish/clean: the loop altered a call in 12 of 72 trials, and the blessed one did not`."""
    return f"{short_arm(found.arm)}: {_altered(found.trials, found.cause, found.of)}"


def altered_text(found: AlteredTrials) -> str:
    """Return one of the trials, with what the loop made there of what the model wrote, and the command that shows it."""
    example = f"{found.trial.removeprefix(f'{found.arm}/')} at step {found.step}: {found.detail}"
    return "\n".join(map(literal, filter(None, (example, found.command))))


def _altered(trials: int, cause: AlteredCause, of: int | None = None) -> str:
    return f"the loop {ALTERED[cause]} in {trials_of(trials, of)}, and the blessed one did not"
