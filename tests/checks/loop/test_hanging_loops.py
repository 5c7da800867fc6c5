"""The check of a loop comes to an end, whatever the loop does."""

from __future__ import annotations

import inspect

import pytest

from tests.checks.loop import hanging_loops
from tests.checks.loop.altered_loops import fewer_draws, finding_of, only_laws
from whichloop.checks.loop import LAWS, Finding, check_loop, scene
from whichloop.checks.loop.scene import HUNG
from whichloop.checks.loop.template_loop import TemplateLoop

HANGING = {
    "InThread": "waits for what never comes at",
    "Locked": "blocks its thread at",
    "Uninterruptible": "blocks its thread at",
    "Waiting": "waits for what never comes at",
}
"""Loop → what is said of it."""


def loop(name: str) -> TemplateLoop:
    made: TemplateLoop = getattr(hanging_loops, name)()
    return made


@pytest.mark.parametrize("name", HANGING)
def test_a_loop_that_hangs_is_given_up_with_its_line_and_the_rest_is_not_checked(name):
    first, *others = found = check_loop(loop(name), limit_s=0.1)
    said, line = first.detail.rsplit(":", 1)
    assert said == f"its check did not end within 0.1 s: the loop {HANGING[name]} tests/checks/loop/hanging_loops.py"
    lines, start = inspect.getsourcelines(getattr(hanging_loops, name).run)
    assert start < int(line) < start + len(lines)
    assert {finding.status for finding in others} == {"not run"}
    assert [finding.law for finding in found] == [law.name for law in LAWS]


def test_a_run_that_only_waits_is_given_up_with_its_line(monkeypatch):
    monkeypatch.setattr(scene, "LIMIT_S", 0.05)
    line = inspect.getsourcelines(hanging_loops.Waiting.run)[1] + 1
    said = f"the run did not end within 0.05 s at tests/checks/loop/hanging_loops.py:{line}; it must end by itself"
    assert finding_of("contract", loop("Waiting")).detail == said


def test_a_loop_that_hangs_in_two_laws_is_not_checked_for_the_others():
    with only_laws("step limit", "budget", "gold"):
        first, second, third = check_loop(loop("Locked"), limit_s=0.1)
    assert [HUNG in finding.detail for finding in (first, second)] == [True, True]
    assert third.status == "not run"


def test_every_finding_is_told_as_its_law_ends():
    told: list[Finding] = []

    def tell(finding: Finding) -> None:
        told.append(finding)
        assert len(told) < len(LAWS) or finding.law == LAWS[-1].name

    assert tuple(told) == () != check_loop(loop("Waiting"), tell, limit_s=0.2)
    assert [finding.law for finding in told] == [law.name for law in LAWS]


def test_threads_that_runs_leave_behind_hold_nothing_up():
    with fewer_draws(), only_laws("contract", "once", "outcome"):
        assert {finding.status for finding in check_loop(loop("Littering"))} == {"ok"}


def test_a_loop_that_hangs_in_one_law_is_checked_for_the_others():
    with fewer_draws(), only_laws("contract", "cancellation", "gold", "provider error"):
        found = check_loop(loop("HangsWhenCancelled"), limit_s=5.0)
    assert [finding.law for finding in found if finding.status == "failed"] == ["cancellation"]
    assert [finding.status for finding in found] == ["ok", "failed", "ok", "ok"]
