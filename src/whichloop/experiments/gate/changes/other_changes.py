"""What changed beside score and stop: what the trials of the same result differ in, and amounts that nothing judges."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from whichloop.metrics.gate import MORE
from whichloop.metrics.summary import PRIMARY
from whichloop.text.numbers import first_of

from ..data.baseline import stored_value
from ..data.names import short_arm
from ..data.other_answers import OtherAnswers, is_of_type_alone
from ..data.outcome import GateArm
from ..data.sides import Sides, TrialPair, show_command
from .traced_trials import TracedTrials

AMOUNTS: Mapping[str, str] = {"steps": "steps", "lm_calls": "LM calls", "tokens": "tokens"}
"""Metrics that a trial may differ in while its score and stop stay, and what they are called."""
COURSE, ANSWERS, ANSWER_TYPE = "moves", "answers", "the type of the answer"
DETAILS = "details such as errors and faults met"
BILLS = ("tokens", "cost_usd")
"""What is told where it changed much, and no margin judges it."""


def differences(traced: TracedTrials, pairs: Sequence[TrialPair]) -> tuple[str, ...]:
    """Return what some of these trials differ in, calls and answers as their traces tell them."""
    if not pairs:
        return ()
    differ_in = [word for metric, word in AMOUNTS.items() if not all(pair.same_value(metric) for pair in pairs)]
    courses = [_courses(traced, pair) for pair in pairs]
    if any(was[:-1] != now[:-1] for was, now in courses):
        differ_in.append(COURSE)
    if any(was[-1:] != now[-1:] for was, now in courses):
        differ_in.append(ANSWERS)
    if any(now and was[-1:] == now[-1:] and _are_others(*pair.answers) for pair, (was, now) in zip(pairs, courses, strict=True)):
        differ_in.append(ANSWER_TYPE)  # a course has an answer as text
    return tuple(differ_in) or (DETAILS,)


def _courses(traced: TracedTrials, pair: TrialPair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the signatures of a trial's steps then and now, the end, which has the answer, the last; nothing of both where a trace
    is missing or damaged."""
    if pair.line.course is None:
        return (), ()
    try:
        trial = traced.read(pair.record, pair.line, pair.record.repeat)
    except ValueError:
        return (), ()
    return tuple(trial.other), tuple(step.signature for step in trial.course)


def other_answers(folder: Path, pairs: Iterable[TrialPair]) -> OtherAnswers | None:
    """Return which of these trials of the same result have another answer, with the first of them; None where none is known to.

    `folder`: the run's directory.

    Of an answer that scores nothing it is no matter how it is written.
    """
    scoring = [pair for pair in pairs if stored_value(pair.record, PRIMARY)]
    other = [(pair.record, *pair.answers) for pair in scoring if _are_others(*pair.answers)]
    if not other:
        return None
    record, was, now = other[0]
    trial = f"{short_arm(record.arm)}/{record.task}/{record.repeat}"
    of_type_alone = sum(is_of_type_alone(str(old), str(new)) for _, old, new in other)
    return OtherAnswers(len(other), of_type_alone, trial, str(was), str(now), show_command(folder, record.arm, record))


def _are_others(was: str | None, now: str | None) -> bool:
    """Whether two answers in brief are known and not the same, be it in their type, as 42 and "42"."""
    return None not in (was, now) and was != now


def unjudged_bills(side: Sides, judged: Collection[str]) -> dict[str, float]:
    """Return each bill that nothing judges and that changed by 10 % or more → run / baseline, of the sums over common tasks."""
    ratios = {metric: _ratio(side, metric) for metric in BILLS if metric not in judged}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None and abs(math.log(ratio)) >= math.log1p(MORE)}


def unjudged_sentences(arms: Iterable[GateArm]) -> Iterator[str]:
    """Yield a sentence for each bill that changed and that nothing judges."""
    for metric, changed in _by_bill(arms).items():
        each = ", ".join(f"×{ratio:.2f} ({arm})" for arm, ratio in changed.items())
        yield f"Not judged: {metric} {each}; a margin, such as {metric}={MORE:g}, has the gate judge them."


def unjudged_in_brief(arms: Sequence[GateArm], most: int) -> Iterator[str]:
    """Yield `tokens ×1.92, not judged` for each such bill, of several arms with their names, at most so many of them."""
    for metric, changed in _by_bill(arms).items():
        each = [f"×{ratio:.2f}{f' ({arm})' if len(arms) > 1 else ''}" for arm, ratio in changed.items()]
        yield f"{metric} {first_of(each, most, rest='{} more')}, not judged"


def _by_bill(arms: Iterable[GateArm]) -> dict[str, dict[str, float]]:
    by_bill: dict[str, dict[str, float]] = {}
    for arm in arms:
        for metric, ratio in arm.unjudged.items():
            by_bill.setdefault(metric, {})[short_arm(arm.arm)] = ratio
    return by_bill


def _ratio(side: Sides, metric: str) -> float | None:
    """Return run / baseline of the sums over tasks; None where one of them is 0 or not known."""
    old, new = side.old_values(metric).means, side.new_values(metric).means
    common = sorted(old.keys() & new.keys())
    before, after = (math.fsum(means[task] for task in common) for means in (old, new))
    return after / before if before > 0 and after > 0 else None
