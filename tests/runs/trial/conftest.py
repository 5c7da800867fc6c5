"""What tests of trials share: every trial that they run is looked at for what holds of all trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from whichloop.runs.trial import trial
from whichloop.runs.trial.trial import FinishedTrial


def check(done: FinishedTrial) -> FinishedTrial:
    """Assert what holds for every trial: strict JSON, within bounds, the trace its own."""
    record = done.record
    assert json.loads(json.dumps(record.to_json(), allow_nan=False)) == record.to_json() | {"faults": record.to_json()["faults"]}
    assert 0 <= record.accuracy <= 1
    assert record.confidence is None or 0 <= record.confidence <= 1
    assert (record.status == "scored") == ("accuracy" in record.scores)
    assert record.status == "scored" or record.reason
    if done.trace:
        trace = json.loads(done.trace, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert (trace["arm"], trace["task"], trace["repeat"]) == record.key
        assert done.trace.count(b"\n") == 1
        assert done.trace.isascii()
    return done


@pytest.fixture(scope="session")
def checked() -> Callable[[FinishedTrial], FinishedTrial]:
    """Checks a finished trial, and returns it."""
    return check


@pytest.fixture(scope="session")
def one_trial(one_trial: Callable[..., FinishedTrial]) -> Callable[..., FinishedTrial]:
    """Runs one trial, and checks it."""

    def run(*values: Any, **named: Any) -> FinishedTrial:
        return check(one_trial(*values, **named))

    return run


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "GRACE_S", 0.2)
