"""Loops that did the same in every trial of a comparison: they are named, and the verdict counts them as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopbench.metrics.comparison import ArmResult, Comparison, Pair
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import joined
from loopbench.text.counts import listed
from loopbench.text.numbers import short_name

from .parts import part_of
from .sentence import AnswerSentence

RETRIES = "provider_retry"
"""The wrapper that asks again where a provider fails, and does nothing else."""
PROVIDER = "provider."
"""How the kinds of a provider's errors begin."""


@dataclass(frozen=True, slots=True)
class SameLoops:
    """Loops that did the same in every trial."""

    plain: str
    """The one with the fewest options, the first of several."""
    others: tuple[str, ...]
    arms: tuple[ArmResult, ...]
    """Those of all these loops."""


def same_loops(comparison: Comparison) -> tuple[SameLoops, ...]:
    """Return the loops that ran under the same profiles and did the same in each."""
    arms: dict[str, dict[tuple[str, str], ArmResult]] = {}
    for arm in comparison.arms:
        arms.setdefault(short_name(arm.info), {})[arm.info.suite, arm.info.profile] = arm
    groups: list[list[str]] = []
    for loop, own in arms.items():
        for group in groups:
            first = arms[group[0]]
            if first.keys() == own.keys() and all(comparison.are_same(first[at].info.arm, own[at].info.arm) for at in own):
                group.append(loop)
                break
        else:
            groups.append([loop])
    made = []
    for group in groups:
        if len(group) > 1:
            plain = min(group, key=lambda loop: len(next(iter(arms[loop].values())).info.options))
            found = tuple(arm for loop in group for arm in arms[loop].values())
            made.append(SameLoops(plain, tuple(loop for loop in group if loop != plain), found))
    return tuple(made)


def without_copies(comparison: Comparison) -> Comparison:
    """Return the comparison with one of the loops that did the same in every trial: the plain one."""
    copies = {loop for same in same_loops(comparison) for loop in same.others}
    if not copies:
        return comparison
    pooled = tuple(pair for pair in comparison.pooled if not {pair.a, pair.b} & copies)
    return replace(part_of(comparison, lambda info: short_name(info) not in copies), pooled=pooled)


def same_sentences(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield which loops did the same as a plainer one, and whether tests show them to be equivalent."""
    loops = {short_name(arm.info) for arm in comparison.arms}
    for same in same_loops(comparison):
        trials = sum(arm.summary.trials for arm in same.arms if short_name(arm.info) == same.plain)
        alike = f"{listed(same.others)} did the same as {same.plain} in all {trials:,} trials{_why(same)}"
        is_all = {same.plain, *same.others} == loops
        ends = f"; take {same.plain}, the plainer one" if is_all else "; the verdict counts them as one"
        said = f"{alike}{_equivalent(same, comparison.pairs)}{ends}"
        yield AnswerSentence(said, adopts=same.plain if is_all else "", opens=True)


def _why(same: SameLoops) -> str:
    """Return that nothing met what the other loops add, where that is asking again of a provider that failed."""
    others = [arm for arm in same.arms if short_name(arm.info) in same.others]
    failed = any(arm.summary.retries or any(kind.startswith(PROVIDER) for kind in arm.summary.errors) for arm in same.arms)
    if failed or any(arm.info.loop != RETRIES for arm in others):
        return ""
    profiles = list(dict.fromkeys(arm.info.profile for arm in others if arm.info.model == "scripted"))
    return f", as no provider failed{f' under {joined(profiles)}' if profiles else ''}"


def _equivalent(same: SameLoops, pairs: Sequence[Pair]) -> str:
    """Return that tests show all of these loops to be equivalent, with the margin; empty where trials are too few for that."""
    names = {arm.info.arm for arm in same.arms}
    own = [pair for pair in pairs if pair.metric == PRIMARY and {pair.a, pair.b} <= names]
    if not own or any(pair.verdict.word != "equivalent" for pair in own):
        return ""
    return f", and they are equivalent within the margin of {own[0].margin:g}"
