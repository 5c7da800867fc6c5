"""Runs under known rates; what loops log under faults does not matter here."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from tests.experiments.fit_profile.helpers import LOOPS, fitted_to, known_run
from whichloop.experiments.fit_profile.fit import FittedProfile
from whichloop.runs.trial.trial import FinishedTrial


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What loops warn of under faults is no matter here."""
    caplog.set_level(logging.ERROR, "whichloop.loops")


@pytest.fixture(scope="session", params=[*LOOPS[:2], *(pytest.param(loop, marks=pytest.mark.slow) for loop in LOOPS[2:])])
def disturbed(request) -> Sequence[FinishedTrial]:
    """The run of each loop under known rates."""
    return known_run(request.param)


@pytest.fixture(scope="session")
def fitted(disturbed: Sequence[FinishedTrial]) -> FittedProfile:
    """What is fitted to that run."""
    return fitted_to(disturbed)
