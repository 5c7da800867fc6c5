"""What the built-in profiles say of their rates: chosen as a stress test, or measured, and of which replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .profiles import Profile, built_in_profiles, load_profile

STRESS_TEST = "Stress test"
"""How the evidence of a profile begins whose rates come from no measurement."""
MEDIAN = "-median"
"""How the name of a profile of medians ends; the one of means over the same models has the name before it."""
FAR = 0.02
"""Share of replies by which a mean must be above the median, and at least twice it, to be that of few models."""


def stress_tests(names: Iterable[str]) -> list[str]:
    """Return those of the names that are built-in profiles whose rates were chosen, and not measured."""
    return [name for name, evidence in evidence_for(names).items() if evidence.startswith(STRESS_TEST)]


def evidence_for(names: Iterable[str]) -> dict[str, str]:
    """Return name → what is known of the rates, for those of the names that are built-in profiles with rates."""
    return {profile.name: profile.evidence for profile in _built_in(names) if profile.rates or profile.by_form}


def measured_forms(names: Iterable[str]) -> dict[str, str]:
    """Return name → `native` or `text`, for those of the names that are built-in profiles measured of calls in that form."""
    return {profile.name: profile.measured_of for profile in _built_in(names) if profile.measured_of is not None}


def with_both_forms(names: Iterable[str]) -> str:
    """Return the built-in profile under which loops of both forms meet one of these, each its own; empty where there is none."""
    sought = set(names)
    of_both = (profile for profile in _built_in(built_in_profiles()) if profile.by_form)
    return next((profile.name for profile in of_both if sought & {form.name for form in profile.by_form.values()}), "")


def other_estimate(name: str) -> str:
    """Return the built-in profile that holds the medians where this one holds means, or the means; empty where there is none."""
    other = name.removesuffix(MEDIAN) if name.endswith(MEDIAN) else f"{name}{MEDIAN}"
    return other if {name, other} <= set(built_in_profiles()) else ""


@dataclass(frozen=True, slots=True)
class FewModelsFault:
    """A kind of fault whose mean share of replies is far above the median model's, so that few models have most of it."""

    kind: str
    mean: float
    median: float


def without_rate(names: Iterable[str], kind: str) -> list[str]:
    """Return those of the names that are built-in profiles under which a kind of fault never happens."""
    return [profile.name for profile in _built_in(names) if not profile.by_form and not profile.rates.get(kind)]


def faults_of_few_models(name: str) -> list[FewModelsFault]:
    """Return the kinds of a built-in profile of means whose mean is far above the median, the farthest first."""
    other = other_estimate(name)
    if not other or name.endswith(MEDIAN):
        return []
    medians = load_profile(other).rates
    faults = [FewModelsFault(kind, mean, medians.get(kind, 0.0)) for kind, mean in load_profile(name).rates.items()]
    few = [each for each in faults if each.mean - each.median >= FAR and each.mean >= 2 * each.median]
    return sorted(few, key=lambda each: each.median - each.mean)


def _built_in(names: Iterable[str]) -> list[Profile]:
    built_in = built_in_profiles()
    return [load_profile(name) for name in names if name in built_in]
