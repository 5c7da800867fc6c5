"""docs/reference.md has the commands, options and settings of the code."""

from __future__ import annotations

from tests.docs.reference import stale


def test_commands_and_settings_are_those_of_the_code() -> None:
    assert stale() == [], "renew it: python -m tests.docs.reference --write"
