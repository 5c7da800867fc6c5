"""Profiles that were measured of native calls or of calls in text, and which loops they apply to."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.metrics.arm_info import ArmInfo
from whichloop.models.profiles import FORMS, built_in_profiles, measured_forms
from whichloop.protocol.names import SCRIPTED

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
    """Whether a mean over the profiles is of nothing: they are two estimates of one thing, means and medians, or of replies in
    different forms, or one of several does not apply to a loop."""
    estimated = {info.profile for info in infos if info.model == SCRIPTED and info.profile in built_in_profiles()}
    if any(f"{name}-median" in estimated for name in estimated):
        return True
    several = len({info.profile for info in infos}) > 1
    return several and (len({form_of(info) for info in infos} - {""}) > 1 or not all(map(applies, infos)))
