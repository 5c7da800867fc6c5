"""The check of a loop comes to an end, whatever the loop does."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import threading
from typing import Any, NoReturn

import pytest

from tests.checks.loop.altered_loops import fewer_draws, finding_of, only_laws
from whichloop.checks.loop import LAWS, check_loop, scene
from whichloop.checks.loop.template_loop import TemplateLoop


class Waiting(TemplateLoop):
    async def run(self, *given: Any) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


class Uninterruptible(TemplateLoop):
    """It hangs in C, where no exception reaches it."""

    async def run(self, *given: Any) -> NoReturn:
        ctypes.CDLL(None).sleep(10**6)
        raise AssertionError


class Littering(TemplateLoop):
    """Its runs are right, and each leaves a thread behind that never ends."""

    async def run(self, *given: Any) -> Any:
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        return await super().run(*given)


class HangsWhenCancelled(TemplateLoop):
    """All is well but for a cancellation, after which it blocks its thread."""

    async def run(self, *given: Any) -> Any:
        try:
            return await super().run(*given)
        except asyncio.CancelledError:
            threading.Event().wait()
            raise


@pytest.mark.parametrize(
    ("design", "hangs"), [(Uninterruptible, "blocks its thread at"), (Waiting, "waits for what never comes at")]
)
def test_a_loop_that_hangs_is_given_up_with_its_line_and_the_rest_is_not_checked(design, hangs):
    first, *others = found = check_loop(design(), limit_s=0.1)
    said, line = first.detail.rsplit(":", 1)
    assert said == f"its check did not end within 0.1 s: the loop {hangs} tests/checks/loop/test_hanging_loops.py"
    lines, start = inspect.getsourcelines(design.run)
    assert start < int(line) < start + len(lines)
    assert {finding.status for finding in others} == {"not run"}
    assert [finding.law for finding in found] == [law.name for law in LAWS]


def test_a_run_that_only_waits_is_given_up_with_its_line(monkeypatch):
    monkeypatch.setattr(scene, "LIMIT_S", 0.05)
    line = inspect.getsourcelines(Waiting.run)[1] + 1
    said = f"the run did not end within 0.05 s at tests/checks/loop/test_hanging_loops.py:{line}; it must end by itself"
    assert finding_of("contract", Waiting()).detail == said


def test_threads_that_runs_leave_behind_hold_nothing_up():
    with fewer_draws(), only_laws("contract", "once", "outcome"):
        assert {finding.status for finding in check_loop(Littering())} == {"ok"}


def test_a_loop_that_hangs_in_one_law_is_checked_for_the_others():
    with fewer_draws(), only_laws("contract", "cancellation", "gold", "provider error"):
        found = check_loop(HangsWhenCancelled(), limit_s=2.0)
    assert [finding.law for finding in found if finding.status == "failed"] == ["cancellation"]
    assert [finding.status for finding in found] == ["ok", "failed", "ok", "ok"]
