"""A blocked event loop is noticed, with the line that blocks it; a process that does not run is not taken for one."""

from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest

from whichloop.runs.trial.watchdog import LAST_ACTIVITY, Watch

BUSY = ["Spins", "Sleeps", "Matches", "Swallows"]


@pytest.mark.parametrize("loop", [BUSY[0], *(pytest.param(loop, marks=pytest.mark.thorough) for loop in BUSY[1:])])
def test_a_loop_that_lets_nothing_else_run_ends_with_its_worker(nasty, ran, loop):
    found = ran(loops=("bare", f"nasty:{loop}"), suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=0.6, workers=1)
    assert found.is_whole
    (busy,) = found.of(loop)
    assert (busy.status, busy.stop, busy.scores) == ("scored", "timeout", {"accuracy": 0.0})
    assert re.match("the loop let nothing else run for .* s; its process was killed", busy.reason)
    assert [record.accuracy for record in found.of("bare")] == [1.0]
    assert loop == "Matches" or any("nothing else has run for" in note for note in found.told.notes)  # it stops every thread


@pytest.mark.thorough
def test_the_others_results_are_those_of_an_undisturbed_run(nasty, ran, undisturbed):
    asked = {"suite": "arithmetic(size=1)", "profiles": ("flaky-tools",)}
    alone = undisturbed(loops=("bare", "finish"), **asked)
    beside = ran(loops=("bare", "nasty:Spins", "finish"), **asked, trial_timeout_s=0.6, workers=1)
    assert beside.is_whole
    kept = [record for record in beside.records if "Spins" not in record.arm]
    assert {record.key: record.trace_digest for record in kept} == {record.key: record.trace_digest for record in alone.records}


@pytest.mark.thorough
def test_time_that_another_trial_took_is_not_counted(nasty, ran):
    loops = ("nasty:Waits(seconds=0.9)", "nasty:HoldsUp(seconds=1.5)")
    found = ran(loops=loops, suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=2)
    assert [record.stop for record in found.records] == ["finished"] * 2


def test_what_blocks_is_told_once_with_its_line_and_its_time_is_kept():
    notes: list[str] = []

    async def go() -> None:
        with Watch(1.0, notes.append).watching():
            before = LAST_ACTIVITY.blocked_s
            time.sleep(1.5)
            await asyncio.sleep(0.1)
            assert 1.0 < LAST_ACTIVITY.blocked_s - before < 3.0

    before = threading.active_count()
    asyncio.run(go())
    (note,) = notes
    assert re.match(r"nothing else has run for \d s.*: a trial computes, or waits without await$", note)
    assert threading.active_count() == before


def test_a_process_that_did_not_run_is_not_blocked(monkeypatch):
    async def go() -> None:
        watch, now = Watch(1.0, lambda _: None), [time.monotonic()]
        monkeypatch.setattr("whichloop.runs.trial.watchdog.time.monotonic", lambda: now[0])
        watch.turn()
        watch._looked_at = now[0]
        now[0] += 0.9
        assert watch.stuck_s == pytest.approx(0.9)
        now[0] += 3_600
        assert watch.stuck_s == 0  # the thread that looks has not run either
        monkeypatch.undo()

    asyncio.run(go())
