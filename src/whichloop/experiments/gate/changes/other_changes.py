"""What changed beside score and stop: what the trials of the same result differ in, and amounts that nothing judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import MappingProxyType

from whichloop.experiments.gate.data.baseline import Baseline, stored_value
from whichloop.experiments.gate.data.findings import OtherAnswers, is_of_type_alone
from whichloop.experiments.gate.data.outcome import GateArm, GateResult, MoreClaims, StopChange
from whichloop.experiments.gate.data.sides import Sides, TrialPair, show_command, stop_of
from whichloop.experiments.gate.data.troubles import hung, short_arm
from whichloop.metrics.gate import MARGIN, MORE
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol import StopReason
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import first_of, listed_names

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


TIMES_SLOWEST = 5
"""Multiple of the slowest blessed trial's time that the median trial has to take: another machine, or one with more to do, is
slower by less than that mostly."""
MIN_S = 0.5
"""Seconds below which a trial is quick, whatever the blessed ones took."""


def time_sentences(sides: Iterable[Sides], baseline: Baseline, manifest: Manifest, metrics: Iterable[str]) -> Iterator[str]:
    """Yield what no metric says of time: which arms' trials take far longer than the blessed ones, and what `seconds` counts.

    A slow machine says so too, so neither makes a run fail. Nothing of a real model, whose seconds are those of its trials, and
    nothing of slow trials where some hang: the others may only have waited for these.
    """
    models = {entry.arm: entry.model for entry in manifest.arms}
    scripted = [side for side in sides if models[side.arm] == SCRIPTED and not manifest.settings.real_time]
    slowest = None if any(hung(record) for side in scripted for record in side.records) else baseline.slowest_s
    typical_s = {side.arm: _median_s(side.records) for side in scripted}
    if slowest is not None and (slow := {arm: typical for arm, typical in typical_s.items() if is_slow(typical, slowest)}):
        arms = listed_names([f"{short_arm(arm)} ({typical:.1f} s)" for arm, typical in slow.items()])
        yield (
            f"The median trial takes far longer than the slowest blessed one ({slowest:.2f} s): {arms}. The loop waits or "
            "computes, or this machine is busy; with the scripted model no metric judges that."
        )
    if scripted and "seconds" in metrics:
        yield (
            "With the scripted model, seconds are the simulated time of slow and hanging faults alone: a loop that waits or "
            "computes for longer passes all the same."
        )


def is_slow(seconds: float, slowest_s: float) -> bool:
    """Whether so many seconds of a trial are far more than those of the slowest blessed one."""
    return seconds > max(MIN_S, TIMES_SLOWEST * slowest_s)


def _median_s(records: Iterable[Record]) -> float:
    """Return the wall time of the median scored trial, in seconds; 0 where none is scored."""
    seconds = [record.wall_s for record in records if record.status == "scored"]
    return median(seconds) if seconds else 0.0


CLAIMS = "false_success_rate"
"""The share of the trials that give a wrong answer as done though a fault was left open, or the result of a planned call unseen."""
WRONGLY = "a wrong answer as done, with a fault left open or a planned result unseen"
"""What is counted, in words; a wrong answer for another cause, such as one that the loop altered, is none of them."""


def more_claims(side: Sides, *, paired: bool) -> MoreClaims | None:
    """Return how many more trials of an arm give a wrong answer as done than in the baseline; None where they are not more, or not
    known on both sides.

    `paired`: whether trials have their counterparts.
    """
    before, after = side.old_values(CLAIMS), side.new_values(CLAIMS)
    tasks = [task for task in after.values if task in before.values]
    if not tasks:
        return None
    was, now = (sum(map(sum, (values.values[task] for task in tasks))) for values in (before, after))
    share, share_now = (sum(values.means[task] for task in tasks) / len(tasks) for values in (before, after))
    claiming = [record for record in side.records if record.task in before.values and stored_value(record, CLAIMS)]
    new = claiming
    if paired:
        new = [record for record in claiming if not side.old[record.task].values(CLAIMS)[record.repeat]]
    if share_now <= share or not new:
        return None
    more = len(new) if paired else int(now - was)
    return MoreClaims(int(was), int(now), share, share_now, more, f"{short_arm(side.arm)}/{new[0].task}/{new[0].repeat}")


def claims_in_words(result: GateResult) -> str:
    """Return that more trials give a wrong answer as done, with one of them, and what has the gate judge it; empty where not so."""
    claims = [(arm, arm.claims) for arm in result.arms if arm.claims is not None]
    if not claims:
        return ""
    where = [f" ({short_arm(arm.arm)})" if len(result.arms) > 1 else "" for arm, _ in claims]
    rates = listed_names([f"{each.baseline:.3f} → {each.run:.3f}{arm}" for (_, each), arm in zip(claims, where, strict=True)])
    judging = result.advice.judging([CLAIMS], MARGIN)
    return f"{_how_many([each for _, each in claims], paired=result.paired)}: {CLAIMS} {rates}, not judged; {judging} judges it"


def _how_many(claims: Sequence[MoreClaims], *, paired: bool) -> str:
    now, was, example = sum(each.now for each in claims), sum(each.was for each in claims), claims[0].example
    if not paired:
        return f"{counted(now, 'trial gives', 'trials give')} {WRONGLY}; {was} in the baseline, such as {example}"
    new = sum(each.new for each in claims)
    one, many = "trial now gives", "trials now give"
    return f"{counted(new, one, many)} {WRONGLY}, and did not in the baseline, such as {example}"


ANSWERED, LIMITED, FAILED, CRASHED = range(4)
GRAVITY: Mapping[str, int] = MappingProxyType(
    {
        StopReason.FINISHED: ANSWERED,
        StopReason.FORCED: ANSWERED,
        StopReason.MAX_STEPS: LIMITED,
        StopReason.UNFINISHED: LIMITED,
        StopReason.BUDGET: LIMITED,
        StopReason.CRASHED: CRASHED,
    }
)
"""How grave a stop is: the model answered, a limit that the user set was reached, or the loop crashed; all other stops failed."""


ERRORED = "errored"
"""In the place of a stop, for a trial that infrastructure made fail."""


def is_graver(was: str | None, now: str | None) -> bool:
    """Whether a trial ends more gravely than it did: by a limit in place of an answer, by a failure, or by a crash."""
    return was is not None and now is not None and GRAVITY.get(now, FAILED) > GRAVITY.get(was, FAILED)


def stop_changes(
    folder: Path, sides: Iterable[Sides], *, paired: bool, hangs: Callable[[Record], bool] = hung
) -> tuple[StopChange, ...]:
    """Return the trials of the same score that stop otherwise, all that crash where the baseline's did not, and all that hang where
    no trial of the arm did in the baseline; the gravest first.

    `folder`: the run's directory. `hangs`: whether a trial hangs, for sure. Where trials have no counterparts (`paired`), only
    crashes of tasks that never crashed in the baseline are known to be new.
    """
    changes = [change for side in sides for change in (_paired(folder, side, hangs) if paired else _new_crashes(folder, side))]
    return tuple(sorted(changes, key=lambda change: (not change.crashed, not change.hangs, not change.graver)))


def _paired(folder: Path, side: Sides, hangs: Callable[[Record], bool]) -> Iterator[StopChange]:
    for pair in side.pairs:
        was, now = pair.line.stop[pair.record.repeat], stop_of(pair.record)
        if now is None or was == now:
            continue
        hung_now = not side.hung_before and hangs(pair.record)
        if now == StopReason.CRASHED or hung_now or (was is not None and pair.same_score):
            yield replace(_change(folder, side.arm, pair.record, was or ERRORED, same_score=pair.same_score), hangs=hung_now)


def _new_crashes(folder: Path, side: Sides) -> Iterator[StopChange]:
    for record in side.records:
        before = [stop for stop in side.old[record.task].stop if stop is not None] if record.task in side.old else []
        if before and stop_of(record) == StopReason.CRASHED and StopReason.CRASHED not in before:
            yield _change(folder, side.arm, record, max(before, key=before.count), same_score=False)


def _change(folder: Path, arm: str, record: Record, was: str, *, same_score: bool) -> StopChange:
    now = str(record.stop)
    return StopChange(
        arm=arm,
        task=record.task,
        repeat=record.repeat,
        was=was,
        now=now,
        same_score=same_score,
        graver=now == StopReason.CRASHED or is_graver(was, now),
        reason=record.reason,
        command=show_command(folder, arm, record),
    )
