"""Calls and answers that the loop altered, and calls that it made of its own, where the blessed one did not: the score of a trial
that got over it does not show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import get_args

from whichloop.experiments.gate.data.names import literal
from whichloop.metrics.trajectory.alterations import Alteration, alterations
from whichloop.metrics.trajectory.trajectory import TracedStep
from whichloop.text.numbers import trials_of

from ..data.names import short_arm
from ..data.outcome import AlteredCause, AlteredTrials, GateResult
from ..data.sides import Sides, TrialPair, show_command
from .traced_trials import TracedTrials

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
