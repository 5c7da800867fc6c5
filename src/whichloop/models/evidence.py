"""What the built-in profiles say of their rates: chosen as a stress test, or measured, and of which replies."""

from __future__ import annotations

from collections.abc import Iterable

from .profiles import Profile, built_in_profiles, load_profile

MEDIAN = "-median"
"""How the name of a profile of medians ends; the one of means over the same models has the name before it."""


def stress_tests(names: Iterable[str]) -> list[str]:
    """Return those of the names that are built-in profiles whose rates were chosen, and not measured."""
    return [name for name, evidence in evidence_for(names).items() if evidence.startswith("Stress test")]


def evidence_for(names: Iterable[str]) -> dict[str, str]:
    """Return name → what is known of the rates, for those of the names that are built-in profiles with rates."""
    return {profile.name: profile.evidence for profile in _built_in(names) if profile.rates or profile.by_form}


def measured_forms(names: Iterable[str]) -> dict[str, str]:
    """Return name → `native` or `text`, for those of the names that are built-in profiles measured of calls in that form."""
    return {profile.name: profile.measured_of for profile in _built_in(names) if profile.measured_of is not None}


def other_estimate(name: str) -> str:
    """Return the built-in profile that holds the medians where this one holds means, or the means; empty where there is none."""
    other = name.removesuffix(MEDIAN) if name.endswith(MEDIAN) else f"{name}{MEDIAN}"
    return other if {name, other} <= set(built_in_profiles()) else ""


def _built_in(names: Iterable[str]) -> list[Profile]:
    return [load_profile(name) for name in names if name in built_in_profiles()]
