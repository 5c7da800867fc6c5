"""Say that a newer whichloop wrote a run, whose scripted model or rule of limits this one does not know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whichloop.metrics.trial_limits import TRIAL_LIMITS, TRIAL_LIMITS_VERSION
from whichloop.models.profiles import PROFILES_VERSION
from whichloop.protocol.values import joined

from .store.files import MANIFEST

VERSION_NAMES = {
    "record": "the form of records",
    "policy_and_profiles": "the scripted model",
    TRIAL_LIMITS: "the rule of trial limits",
}
"""Name of a version in a manifest → what has it."""
_READABLE: Mapping[str, int] = {"policy_and_profiles": PROFILES_VERSION, TRIAL_LIMITS: TRIAL_LIMITS_VERSION}
"""The versions of this whichloop of which a newer one does not keep a run from being read."""


def newer_versions(folder: Path, versions: Mapping[str, Any]) -> str:
    """Return what a run has in a newer version than this whichloop, as a sentence; empty where there is nothing such.

    `versions`: those that the run's manifest names.
    """
    newer = [
        f"{VERSION_NAMES[name]} has version {versions[name]}, here {version}"
        for name, version in _READABLE.items()
        if isinstance(versions.get(name), int) and versions[name] > version
    ]
    if not newer:
        return ""
    differs = "; what is said here of the run's faults and costs may differ from what it meant"
    return f"{folder / MANIFEST}: written by a newer whichloop: {joined(newer)}{differs}"
