"""The version of the scripted model and of the built-in fault profiles, which every manifest names."""

from __future__ import annotations

PROFILES_VERSION = 7
"""Raised with any change to a built-in profile, to the policy, or to the way faults are drawn or replies ordered."""
