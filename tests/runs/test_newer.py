"""A run that a newer whichloop wrote is read, and what this one does not know of it is said."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import TRIAL_LIMITS, TRIAL_LIMITS_VERSION
from whichloop.models.profiles import PROFILES_VERSION
from whichloop.runs.manifest import newer_versions

HERE = {"policy_and_profiles": PROFILES_VERSION, TRIAL_LIMITS: TRIAL_LIMITS_VERSION}
VERSION = st.none() | st.integers(0, 12) | st.text(max_size=3)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*HERE, "record", "other"), VERSION)))
def test_a_version_is_told_only_where_it_is_newer_than_ours(versions):
    said = newer_versions(Path("runs/r"), versions)
    newer = [name for name, version in versions.items() if name in HERE and isinstance(version, int) and version > HERE[name]]
    assert bool(said) == bool(newer)
    assert said.count(", here ") == len(newer)
    assert "\n" not in said


def test_the_sentence_names_the_file_and_both_versions():
    assert newer_versions(Path("runs/r"), {"policy_and_profiles": 99}).startswith(
        f"runs/r/manifest.json: written by a newer whichloop: the scripted model has version 99, here {PROFILES_VERSION}; "
    )
