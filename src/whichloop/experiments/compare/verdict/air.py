"""What loops met in a comparison, in words: stress tests, profiles, or still air."""

from __future__ import annotations

from whichloop.models.evidence import stress_tests

from .matrix import AnswerMatrix

STRESS = "stress test"
STILL = "clean"
"""The profile without faults."""


def air(matrix: AnswerMatrix) -> str:
    """Return what a profile is called: a stress test where no model was measured to have any of them."""
    return STRESS if matrix.profiles and len(stress_tests(matrix.profiles)) == len(matrix.profiles) else "profile"


def every_profile(matrix: AnswerMatrix) -> str:
    """Return `both profiles`, `all 3 stress tests`."""
    number = len({column.profile for column in matrix.columns})
    return f"{'both' if number == 2 else f'all {number}'} {air(matrix)}s"


def is_still(matrix: AnswerMatrix) -> bool:
    """Whether nothing was disturbed, so that more tasks would show no more."""
    return matrix.profiles == [STILL]


def what_disturbs(matrix: AnswerMatrix) -> str:
    """Return what to do where nothing was disturbed, as a sentence's end; else empty."""
    return f"; {STILL} disturbs nothing: add --profile flaky-format or --profile flaky-tools" if is_still(matrix) else ""
