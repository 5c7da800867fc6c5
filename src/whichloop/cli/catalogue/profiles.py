"""The list of fault profiles."""

from __future__ import annotations

from whichloop.models.profiles import built_in_profiles, load_profile

from .entry import CatalogueEntry, OptionLine

FITS = {
    "native": "with native calls, such as finish and bare(decision_format=native)",
    "text": "with calls in text, such as bare, react_extract and stateless",
}
"""Form of calls that a profile was measured of → the loops that have it."""


def entries() -> list[CatalogueEntry]:
    profile_entries = []
    for name in built_in_profiles():
        profile = load_profile(name)
        rates = tuple(OptionLine(kind, f"{rate:g}", "chance per point") for kind, rate in profile.rates.items())
        fits = f"It fits loops {FITS[profile.measured_of]}." if profile.measured_of else ""
        by_form = "It has loops of both forms in one column." if profile.by_form else ""
        profile_entries.append(
            CatalogueEntry(name, " ".join(filter(None, (profile.description, profile.evidence, fits, by_form))), rates)
        )
    return profile_entries
