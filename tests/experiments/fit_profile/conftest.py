"""Runs under known rates; what loops log under faults does not matter here."""

from __future__ import annotations

import logging

import pytest

from loopbench.experiments.fit_profile.fit import FittedProfile
from loopbench.runs.trial.setting import FinishedTrial
from tests.experiments.fit_profile.helpers import LOOPS, fitted_to, known, run


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What loops warn of under faults is no matter here."""
    caplog.set_level(logging.ERROR, "loopbench.loops")


@pytest.fixture(scope="session", params=LOOPS)
def disturbed(request) -> list[FinishedTrial]:
    """A run under known rates; the same draws meet each loop."""
    return run([request.param], known(), size=40)


@pytest.fixture(scope="session")
def fitted(disturbed: list[FinishedTrial]) -> FittedProfile:
    """What is fitted to that run."""
    return fitted_to(disturbed)
