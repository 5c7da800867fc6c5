"""What changed beside score and stop: what the trials of the same result differ in, and amounts that nothing judges."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loopbench.metrics.gate import MORE
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.trajectory.trajectory import course, signatures
from loopbench.runs.store.traces import Traces
from loopbench.text.counts import first_of

from ..data.baseline import measured
from ..data.names import short_arm
from ..data.outcome import GateArm, OtherAnswers
from ..data.sides import Sides, TrialPair, show_command

AMOUNTS: Mapping[str, str] = {"steps": "steps", "lm_calls": "LM calls", "tokens": "tokens"}
"""Metrics that a trial may differ in while its score and stop stay, and what they are called."""
COURSE, ANSWERS, ANSWER_TYPE = "moves", "answers", "the type of the answer"
DETAILS = "details such as errors and faults met"
BILLS = ("tokens", "cost_usd")
"""What is told where it changed much, and no margin judges it."""


def differences(folder: Path, pairs: Sequence[TrialPair]) -> tuple[str, ...]:
    """Return what some of these trials differ in; `folder` is the run's directory, whose traces tell of calls and answers."""
    if not pairs:
        return ()
    found = [word for metric, word in AMOUNTS.items() if not all(pair.same_value(metric) for pair in pairs)]
    traces = Traces(folder)
    courses = [_courses(traces, pair) for pair in pairs]
    if any(was[:-1] != now[:-1] for was, now in courses):
        found.append(COURSE)
    if any(was[-1:] != now[-1:] for was, now in courses):
        found.append(ANSWERS)
    if any(now and was[-1:] == now[-1:] and _are_others(*pair.answers) for pair, (was, now) in zip(pairs, courses, strict=True)):
        found.append(ANSWER_TYPE)  # a course has an answer as text
    return tuple(found) or (DETAILS,)


def _courses(traces: Traces, pair: TrialPair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the signatures of a trial's steps then and now, the end, which has the answer, the last; nothing of both where a trace
    is missing or damaged."""
    if pair.line.course is None:
        return (), ()
    try:
        now = tuple(step.signature for step in course(traces.read(pair.record)))
    except ValueError:
        return (), ()
    return signatures(pair.line.course[pair.record.repeat]), now


def other_answers(folder: Path, pairs: Iterable[TrialPair]) -> OtherAnswers | None:
    """Return which of these trials of the same result have another answer, with the first of them; None where none is known to.

    `folder`: the run's directory.

    Of an answer that scores nothing it is no matter how it is written.
    """
    scoring = [pair for pair in pairs if measured(pair.record, PRIMARY)]
    other = [(pair.record, *pair.answers) for pair in scoring if _are_others(*pair.answers)]
    if not other:
        return None
    record, was, now = other[0]
    trial = f"{short_arm(record.arm)}/{record.task}/{record.repeat}"
    return OtherAnswers(len(other), trial, str(was), str(now), show_command(folder, record.arm, record))


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
    found: dict[str, dict[str, float]] = {}
    for arm in arms:
        for metric, ratio in arm.unjudged.items():
            found.setdefault(metric, {})[short_arm(arm.arm)] = ratio
    return found


def _ratio(side: Sides, metric: str) -> float | None:
    """Return run / baseline of the sums over tasks; None where one of them is 0 or not known."""
    old, new = side.old_values(metric).means, side.new_values(metric).means
    known = old.keys() & new.keys()
    before, after = (math.fsum(means[task] for task in sorted(known)) for means in (old, new))
    return after / before if before > 0 and after > 0 else None
