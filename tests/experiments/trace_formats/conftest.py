"""Trials of the built-in designs under many faults, as traces."""

from __future__ import annotations

import json

import pytest

from tests.experiments.fit_profile.helpers import known, run
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.runs.manifest import ArmEntry

DESIGNS = ("bare", 'bare(decision_format="native")', "react_extract", "finish", "stateless")


@pytest.fixture(scope="session")
def own_trials() -> list[tuple[Record, Trace, ArmEntry]]:
    """Record, trace and arm of some trials of every design."""
    made = []
    for done in run(DESIGNS, known(), size=6, repeats=1):
        arm = ArmEntry(arm=done.record.arm, loop=done.record.arm.partition("(")[0], options={}, model="scripted", profile="known")
        made.append((done.record, Trace.from_json(json.loads(done.trace)), arm))
    return made
