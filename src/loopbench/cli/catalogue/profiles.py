"""The list of fault profiles."""

from __future__ import annotations

from loopbench.models.profiles import built_in_profiles, load_profile

from .entry import CatalogueEntry, OptionLine


def entries() -> list[CatalogueEntry]:
    made = []
    for name in built_in_profiles():
        profile = load_profile(name)
        rates = tuple(OptionLine(kind, f"{rate:g}", "chance per point") for kind, rate in profile.rates.items())
        made.append(CatalogueEntry(name, f"{profile.description} {profile.evidence}".strip(), rates))
    return made
