"""Profiles that were measured of native calls or of calls in text: which loops they apply to, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison
from whichloop.models.evidence import measured_forms, other_estimate, with_both_forms
from whichloop.models.profiles import FORMS
from whichloop.protocol.names import SCRIPTED
from whichloop.text.numbers import listed_names, short_name

OF_BOTH = "both"
"""Of a profile that has one for each form of calls."""


def form_of(info: ArmInfo) -> str:
    """Return the form of calls that an arm's profile was measured of, `native`, `text` or `both`; empty where it is of none."""
    if info.model != SCRIPTED:
        return ""
    return OF_BOTH if info.met else measured_forms([info.profile]).get(info.profile, "")


def applies(info: ArmInfo) -> bool:
    """Whether an arm's profile describes replies such as its loop asks for; a loop that does not say how it has calls written is
    taken at its word."""
    return info.calls_in not in FORMS or form_of(info) in ("", OF_BOTH, info.calls_in)


def are_mixed(infos: Sequence[ArmInfo]) -> bool:
    """Whether a mean over the profiles is of nothing: they are of different replies, or two estimates of one thing."""
    return are_of_different_replies(infos) or bool(estimated_twice(infos))


def estimated_twice(infos: Sequence[ArmInfo]) -> list[tuple[str, str]]:
    """Return the profiles of means whose medians are in the run, too, each with that of the medians."""
    profiles = dict.fromkeys(info.profile for info in infos if info.model == SCRIPTED)
    pairs = [(profile, other_estimate(profile)) for profile in profiles]
    return [(means, medians) for means, medians in pairs if medians in profiles and medians.startswith(means)]


def are_of_different_replies(infos: Sequence[ArmInfo]) -> bool:
    """Whether profiles are of replies in different forms, or one of several does not apply to a loop."""
    several = len({info.profile for info in infos}) > 1
    return several and (len({form_of(info) for info in infos} - {""}) > 1 or not all(map(applies, infos)))


def fits_in_words(infos: Sequence[ArmInfo]) -> tuple[str, str]:
    """Return which loops measured profiles apply to, without a full stop, and the same in fewer words; empty where all do.

    The few words say which profile each loop met only where not all of them met the same ones.
    """
    clauses = [*_of_both_forms(infos), *_of_other_forms(infos)]
    return "; ".join(clause for clause, _ in clauses), "; ".join(brief for _, brief in clauses if brief)


def met_different_faults(infos: Sequence[ArmInfo]) -> bool:
    """Whether a profile was another one for some loops than for others, so that what differs may be the faults that they met."""
    return any(brief for _, brief in _of_both_forms(infos))


def not_applicable(infos: Sequence[ArmInfo]) -> str:
    """Return which profiles do not apply to loops that ran under them, without a full stop; empty where all do."""
    return "; ".join(clause for clause, _ in _of_other_forms(infos))


def _of_both_forms(infos: Sequence[ArmInfo]) -> Iterator[tuple[str, str]]:
    """Yield which profile each loop met under those that have one for each form of calls, and the same in few words.

    Those are empty where all loops met the same ones. Profiles that divide the loops alike share a line.
    """
    alike: dict[tuple[tuple[str, str], ...], dict[str, list[str]]] = {}
    for profile in dict.fromkeys(info.profile for info in infos if info.met):
        infos_by_profile: dict[str, list[ArmInfo]] = {}
        for info in infos:
            if info.profile == profile:
                infos_by_profile.setdefault(info.met, []).append(info)
        parts = tuple((_names(own), FORMS[own[0].calls_in]) for own in infos_by_profile.values())
        alike.setdefault(parts, {})[profile] = [*infos_by_profile]
    for parts, met_by_profile in alike.items():
        each = [
            (f"{loops} met {listed_names(names)}", form)
            for (loops, form), names in zip(parts, zip(*met_by_profile.values(), strict=True), strict=True)
        ]
        is_one = len(met_by_profile) == 1
        what = f"{'is' if is_one else 'are'} what was measured of a loop's own form of calls"
        full = ", ".join(f"{met} ({form})" for met, form in each)
        brief = ", ".join(met for met, _ in each) if len(each) > 1 else ""
        yield f"{listed_names([*met_by_profile])} {what}: {full}", brief


def _of_other_forms(infos: Sequence[ArmInfo]) -> Iterator[tuple[str, str]]:
    """Yield that profiles do not apply to loops of the other form, and under which profile these can be compared."""
    profiles = dict.fromkeys(info.profile for info in infos)
    by_profile = {profile: [info for info in infos if info.profile == profile and not applies(info)] for profile in profiles}
    strangers = {profile: own for profile, own in by_profile.items() if own}
    if not strangers:
        return
    parts, briefs = [], []
    for profile, own in strangers.items():
        writes = f"{_names(own)}, which {'writes' if len(own) == 1 else 'write'} {FORMS[own[0].calls_in]}"
        parts.append(f"{profile} was measured of {FORMS[form_of(own[0])]} and does not apply to {writes}")
        briefs.append(f"{profile} does not apply to {_names(own)}")
    both = with_both_forms(strangers)
    cure = f"; --profile {both} compares loops of both forms, each under its own" if both else ""
    yield f"{'; '.join(parts)}{cure}", f"{'; '.join(briefs)}{cure}"


def _names(infos: Sequence[ArmInfo]) -> str:
    return listed_names(list(dict.fromkeys(map(short_name, infos))))


def that_apply(comparison: Comparison) -> Comparison:
    """Return the arms whose profile applies to their loop, and their pairs."""
    return comparison if all(applies(arm.info) for arm in comparison.arms) else part_of(comparison, applies)


def under_profile(comparison: Comparison, profile: str) -> Comparison:
    """Return the arms under one profile that it applies to, and their pairs."""
    return part_of(comparison, lambda info: info.profile == profile and applies(info))


def part_of(comparison: Comparison, belongs: Callable[[ArmInfo], bool]) -> Comparison:
    """Return the arms that belong to a part, their pairs, and which of them did the same.

    A pair over all profiles together stays where every arm of both loops belongs: any other one rests on arms that the part lacks.
    """
    arms = tuple(arm for arm in comparison.arms if belongs(arm.info))
    names = {arm.info.arm for arm in arms}
    incomplete_loops = {arm.info.without_profile for arm in comparison.arms if arm.info.arm not in names}
    return replace(
        comparison,
        arms=arms,
        pairs=tuple(pair for pair in comparison.pairs if {pair.a, pair.b} <= names),
        pooled=tuple(pair for pair in comparison.pooled if incomplete_loops.isdisjoint((pair.a, pair.b))),
        same=tuple(pair for pair in comparison.same if names.issuperset(pair)),
    )
