"""Loops that did the same in every trial of a comparison: they are named, and the verdict counts them as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.metrics.summary import PRIMARY
from whichloop.models.evidence import without_rate
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import joined
from whichloop.text.numbers import listed_names, short_name

from ..measured_forms import part_of
from .basis import FENCED, FENCES, READ
from .few_tasks_verdict import nothing_of_others
from .matrix import AnswerMatrix
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
    for loop, arms_of_loop in arms.items():
        for group in groups:
            first = arms[group[0]]
            if first.keys() == arms_of_loop.keys() and all(
                comparison.are_same(first[at].info.arm, arms_of_loop[at].info.arm) for at in arms_of_loop
            ):
                group.append(loop)
                break
        else:
            groups.append([loop])
    same = []
    for group in groups:
        if len(group) > 1:
            plain = min(group, key=lambda loop: len(next(iter(arms[loop].values())).info.options))
            group_arms = tuple(arm for loop in group for arm in arms[loop].values())
            same.append(SameLoops(plain, tuple(loop for loop in group if loop != plain), group_arms))
    return tuple(same)


def without_copies(comparison: Comparison) -> Comparison:
    """Return the comparison with one of the loops that did the same in every trial: the plain one."""
    copies = {loop for same in same_loops(comparison) for loop in same.others}
    return part_of(comparison, lambda info: short_name(info) not in copies) if copies else comparison


def same_sentences(comparison: Comparison, matrix: AnswerMatrix) -> Iterator[AnswerSentence]:
    """Yield which loops did the same as a plainer one, whether tests show them to be equivalent, and that few tasks say no more.

    `matrix`: the matrix of all loops.
    """
    loops = {short_name(arm.info) for arm in comparison.arms}
    for same in same_loops(comparison):
        trials = sum(arm.summary.trials for arm in same.arms if short_name(arm.info) == same.plain)
        alike = f"{listed_names(same.others)} did the same as {same.plain} in all {trials:,} trials{_why(same)}"
        is_all = {same.plain, *same.others} == loops
        ends = f"; take {same.plain}, the plainer one" if is_all else "; the verdict counts them as one"
        text = f"{alike}{_equivalent(same, comparison.pairs)}{ends}"
        yield AnswerSentence(text, adopts=same.plain if is_all else "", opens=True)
        if is_all and _are_few(same, comparison):
            yield nothing_of_others(matrix)


def _are_few(same: SameLoops, comparison: Comparison) -> bool:
    """Whether these loops have so few tasks in common that these say nothing of others."""
    accuracy_pairs = _accuracy(same, comparison.pairs)
    return all(
        are_too_few_to_plan(pair.units, comparison.alpha, is_clustered=pair.units < pair.difference.n) for pair in accuracy_pairs
    )


def _why(same: SameLoops) -> str:
    """Return that nothing met what the other loops add: reading fenced replies, or asking again of a provider that failed."""
    others = [arm for arm in same.arms if short_name(arm.info) in same.others]
    if unfenced := _without_fences(same):
        have = "has" if len(unfenced) == 1 else "have"
        return f", as {joined(unfenced)} {have} no fenced replies ({FENCED}), which {FENCES}={READ} is for"
    failed = any(arm.summary.retries or any(kind.startswith(PROVIDER) for kind in arm.summary.errors) for arm in same.arms)
    if failed or any(arm.info.loop != RETRIES for arm in others):
        return ""
    profiles = list(dict.fromkeys(arm.info.profile for arm in others if arm.info.model == SCRIPTED))
    return f", as no provider failed{f' under {joined(profiles)}' if profiles else ''}"


def _without_fences(same: SameLoops) -> list[str]:
    """Return the profiles if none of them has a fenced reply, and the other loops only add that they read fenced replies."""
    loops = {short_name(arm.info): arm.info for arm in same.arms}
    plain = loops[same.plain]
    if any(
        (loops[other].loop, dict(loops[other].options)) != (plain.loop, {**plain.options, FENCES: READ}) for other in same.others
    ):
        return []
    met_profiles = {arm.info.profile: arm.info.met or arm.info.profile for arm in same.arms if arm.info.model == SCRIPTED}
    has_none = len(without_rate(met_profiles.values(), FENCED)) == len(met_profiles)
    return [*met_profiles] if has_none and all(arm.info.model == SCRIPTED for arm in same.arms) else []


def _accuracy(same: SameLoops, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of these loops' arms on accuracy."""
    names = {arm.info.arm for arm in same.arms}
    return [pair for pair in pairs if pair.metric == PRIMARY and {pair.a, pair.b} <= names]


def _equivalent(same: SameLoops, pairs: Sequence[Pair]) -> str:
    """Return that tests show all of these loops to be equivalent, with the margin; empty where trials are too few for that."""
    accuracy_pairs = _accuracy(same, pairs)
    if not accuracy_pairs or any(pair.verdict.word != "equivalent" for pair in accuracy_pairs):
        return ""
    return f", and they are equivalent within the margin of {accuracy_pairs[0].margin:g}"
