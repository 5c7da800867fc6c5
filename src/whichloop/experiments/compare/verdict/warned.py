"""The warnings of a comparison as an answer tells them, the weightiest first: those of its arms, crashes, trials that ran out of
time, unknown costs; and before them all the arms that crashed in every trial, or never asked their model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from whichloop.metrics.arm_warnings import most_frequent, most_told, of_each
from whichloop.metrics.comparison import ArmResult, Comparison, dead_arm_warning
from whichloop.protocol import StopReason
from whichloop.runs.silent_end import is_blocked
from whichloop.text.numbers import reasons

from .sentence import AnswerSentence


def dead_arm_sentences(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield one sentence on the arms that crashed in every trial, and one on those that never asked their model; no empty one."""
    for arms, of_several in ((comparison.crashed_arms, _all_crashed), (comparison.unasked_arms, _none_asked)):
        if arms:
            text = dead_arm_warning(arms[0]).removesuffix(".") if len(arms) == 1 else of_several(arms)
            yield AnswerSentence(text, is_basis=True)


def _all_crashed(arms: Sequence[ArmResult]) -> str:
    """Return the sentence on several arms that crashed in every trial, with the most frequent reason."""
    why: Counter[str] = Counter()
    for arm in arms:
        why.update(arm.summary.crashes)
    text = f"Every trial of {len(arms)} arms crashed: {_scored_trials(arms)}{most_frequent(why)}"
    return f"{text}; what they score says nothing of an agent"


def _none_asked(arms: Sequence[ArmResult]) -> str:
    """Return the sentence on several arms that never asked their model; where all ran out of time, with what most trials tell."""
    late: Counter[str] = Counter()
    for arm in arms:
        late.update(arm.summary.late)
    are_late = all(arm.summary.always_late for arm in arms)
    cause = f", which all ran out of time{most_told(late)}" if are_late else ""
    text = f"{len(arms)} arms never asked their model: {_scored_trials(arms)}{cause}"
    return f"{text}; their accuracies are not those of an agent, and they are compared with no other arm"


def _scored_trials(arms: Sequence[ArmResult]) -> str:
    """Return `6 trials of a/clean and 6 of b/clean`."""
    return of_each({arm.info.arm: f"{arm.summary.scored:,}" for arm in arms}, "trials")


def warned(comparison: Comparison) -> list[str]:
    """Return all warnings, a line each; those about unknown costs come last.

    What is said of dead arms is left to `dead_arm_sentences`, which stand before everything else.
    """
    told = frozenset(map(dead_arm_warning, comparison.dead_arms))
    main, costs = (
        [f"Warning: {each}" for each in warnings if each not in told]
        for warnings in (comparison.main_warnings, comparison.cost_warnings)
    )
    is_told = StopReason.TIMEOUT in comparison.limits.stops  # by the answer, which says who reached a limit of the run's own
    late = [] if is_told else timed_out(comparison.arms)
    living = [arm for arm in comparison.arms if not arm.death_cause]
    return [*main, *crashed([arm for arm in comparison.arms if not arm.summary.always_crashed]), *hung(living), *late, *costs]


def crashed(arms: Sequence[ArmResult]) -> list[str]:
    """Return one line on the arms whose loops crashed, the largest share of trials first, with the most frequent reasons."""
    each = _most_affected_first(arms, _crashes)
    if not each:
        return []
    why: Counter[str] = Counter()
    for arm in arms:
        why.update(arm.summary.crashes)
    return [f"Crashed: {of_each(each, 'trials')} ({reasons(why)})"]


def hung(arms: Sequence[ArmResult]) -> list[str]:
    """Return one line on the arms whose loops let nothing else run until they were ended, with where most of them stood."""
    where: Counter[str] = Counter()
    for arm in arms:
        where.update(blocked(arm))
    each = _most_affected_first(arms, lambda arm: sum(blocked(arm).values()))
    return [f"Hung: {of_each(each, 'trials')} ({reasons(where)})"] if each else []


def blocked(arm: ArmResult) -> dict[str, int]:
    """Return what is told of the trials that let nothing else run → trials."""
    return {told: trials for told, trials in arm.summary.late.items() if is_blocked(told)}


def timed_out(arms: Sequence[ArmResult]) -> list[str]:
    """Return one line on the arms of which trials ended because their time was up, the largest share of trials first."""
    each = _most_affected_first(arms, lambda arm: arm.summary.stops.get(StopReason.TIMEOUT, 0))
    return [f"Out of time, and so not solved: {of_each(each, 'trials')}"] if each else []


def _most_affected_first(arms: Sequence[ArmResult], trials: Callable[[ArmResult], int]) -> dict[str, str]:
    """Return arm → `2 of the 8`, of the arms that have any such trials, the largest share of the scored ones first."""
    affected = sorted((arm for arm in arms if trials(arm)), key=lambda arm: -trials(arm) / arm.summary.scored)
    return {arm.info.arm: f"{trials(arm):,} of the {arm.summary.scored:,}" for arm in affected}


def _crashes(arm: ArmResult) -> int:
    return sum(arm.summary.crashes.values())
