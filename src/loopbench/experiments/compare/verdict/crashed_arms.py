"""Arms that crashed in every trial: a mistake in the loop or the program, which stands before any verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from loopbench.metrics.arm_warnings import of_each
from loopbench.metrics.comparison import Comparison, dead_arm_warning
from loopbench.metrics.left_out import most_frequent

from .sentence import AnswerSentence


def crashed_sentences(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield one sentence on the arms that crashed in every trial, with the most frequent reason; nothing where there are none."""
    arms = comparison.crashed_arms
    if len(arms) == 1:
        yield AnswerSentence(dead_arm_warning(arms[0]).removesuffix("."), is_basis=True)
    elif arms:
        reasons: Counter[str] = Counter()
        for arm in arms:
            reasons.update(arm.summary.crashes)
        every = of_each({arm.info.arm: f"{arm.summary.scored:,}" for arm in arms}, "trials")
        text = f"Every trial of {len(arms)} arms crashed: {every}{most_frequent(reasons)}"
        yield AnswerSentence(f"{text}; what they score says nothing of an agent", is_basis=True)


def warnings_of_crashed_arms(comparison: Comparison) -> frozenset[str]:
    """Return the comparison's warnings that the sentence stands for."""
    return frozenset(map(dead_arm_warning, comparison.crashed_arms))
