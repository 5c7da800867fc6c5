"""A trial that lets nothing else run is interrupted, and costs the others nothing."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.models.profiles import load_profile
from whichloop.protocol import Tool
from whichloop.protocol.names import Spec
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial import watchdog
from whichloop.runs.trial.setting import TrialContext
from whichloop.runs.trial.trial import run_trial
from whichloop.runs.trial.watchdog import BlockingTime, HangingTrials, Watch, _Clock

BUSY = ("Sleeps", "SwallowsTwo", *(pytest.param(loop, marks=pytest.mark.slow) for loop in ("Spins", "SpinsInATask")))


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    """Everything is noticed sooner."""
    monkeypatch.setattr(watchdog, "GRACE_S", 0.1)
    monkeypatch.setattr(watchdog, "LOOK_S", 0.05)
    monkeypatch.setattr(watchdog, "STUCK_S", 0.1)
    monkeypatch.setattr(watchdog, "HOPELESS_S", 0.3)


@given(st.lists(st.floats(0, 1e-4)))
def test_a_clock_never_goes_back_however_it_is_stopped(stops):
    clock, before = _Clock(), 0.0
    for seconds in stops:
        clock.stopped(seconds)
        now = clock.time()
        assert now >= before
        before = now


@pytest.mark.parametrize("loop", BUSY)
def test_a_loop_that_lets_nothing_else_run_is_interrupted(nasty, ran, loop):
    found = ran(loops=("bare", f"nasty:{loop}"), suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=0.3)
    assert found.is_whole
    (busy,) = found.of(loop)
    assert (busy.status, busy.stop, busy.scores) == ("scored", "timeout", {"accuracy": 0.0})
    assert "it let nothing else run for" in busy.reason
    assert [record.accuracy for record in found.of("bare")] == [1.0]


@pytest.mark.thorough
def test_the_others_results_are_those_of_an_undisturbed_run(nasty, ran, undisturbed):
    asked = {"suite": "arithmetic(size=1)", "profiles": ("flaky-tools",)}
    alone = undisturbed(loops=("bare", "finish"), **asked)
    beside = ran(loops=("bare", "nasty:Spins", "finish"), **asked, trial_timeout_s=0.3)
    assert beside.is_whole
    kept = [record for record in beside.records if "Spins" not in record.arm]
    assert {record.key: record.trace_digest for record in kept} == {record.key: record.trace_digest for record in alone.records}


@pytest.mark.thorough
def test_time_that_another_trial_took_is_not_counted(nasty, ran):
    loops = ("nasty:Waits(seconds=0.9)", "nasty:HoldsUp(seconds=1.5)")
    found = ran(loops=loops, suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=2)
    assert [record.stop for record in found.records] == ["finished"] * 2
    long = ran(loops=("nasty:Waits(seconds=2.6)", *loops), suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=1.6)
    assert [record.stop for record in sorted(long.records, key=lambda record: record.arm)] == ["finished", "finished", "timeout"]


@pytest.mark.parametrize("hanging", [1, 2])
def test_a_tool_that_hangs_in_place_is_interrupted(tiny, hanging):
    """The first call is the replay of the plan: that the tool hangs there is the suite's fault, and no loop's."""
    calls: list[int] = []

    def double(n: int) -> int:
        """Twice n."""
        calls.append(n)
        if len(calls) == hanging:
            time.sleep(10**6)
        return 2 * n

    suite = tiny((Tool.from_function(double, blocking=False),))
    spec = Spec("bare", {})
    arm = Arm("arm", spec, make_loop(spec, 5), "scripted", load_profile("clean"))
    trial = Trial(arm, suite.tasks[0], 0, 0)

    async def go() -> Record:
        with Watch(0.2, lambda _: None).watching():
            return (await run_trial(trial, TrialContext(suite, timeout_s=0.2))).record

    record = asyncio.run(go())
    if hanging == 1:
        assert record.status == "excluded"
        assert "Interrupted: it let nothing else run" in record.reason
    else:
        assert (record.status, record.stop, record.tool_calls, record.errors) == ("scored", "timeout", 1, {"tool.Interrupted": 1})


def test_a_trial_that_hangs_is_named_once_long_before_its_time_is_up():
    """Looks at an event loop say for how long it has not turned, and which trial was last seen to hold it up."""
    hanging = HangingTrials(60.0)
    looks = [(0.0, ""), (3.0, "a t1 0"), (10.5, "a t1 0"), (20.5, "a t1 0"), (11.0, ""), (12.0, "a t2 0")]
    said = [hanging.warning(trial, stuck_s) for stuck_s, trial in looks]
    end = "s: it computes, or waits without await; it is interrupted after 60 s (trial_timeout_s), "
    end += "and where that cannot be, its process is killed some seconds later"
    first, second = (f"a t1 0 has let nothing else run for 10 {end}", f"a t2 0 has let nothing else run for 12 {end}")
    assert said == ["", "", first, "", "", second]


def test_within_one_process_it_is_named_by_the_watch(monkeypatch):
    notes: list[str] = []
    monkeypatch.setattr(Watch, "stuck_s", 12.0)

    async def go() -> None:
        watch = Watch(60.0, notes.append)
        watch._last_holder = BlockingTime("a t1 0")
        over = iter([False, False, True])
        monkeypatch.setattr(watch._is_over, "wait", lambda _: next(over))
        watch.look(None)

    asyncio.run(go())
    assert [note.partition(" s: ")[0] for note in notes] == ["a t1 0 has let nothing else run for 12"]


def test_an_event_loop_that_has_turned_is_not_blocked(monkeypatch):
    async def go() -> None:
        watch = Watch(60.0, lambda _: None)
        watch._last_holder = BlockingTime("a t1 0")
        later = time.monotonic() + 100.0
        monkeypatch.setattr("whichloop.runs.trial.watchdog.time.monotonic", lambda: later)
        assert watch.stuck_s == pytest.approx(100.0, abs=1.0)
        assert watch.holder == "a t1 0"
        watch.turn()
        assert (watch.stuck_s, watch.holder) == (0.0, "")
        later += 50.0
        assert watch.stuck_s == pytest.approx(50.0)

    asyncio.run(go())


def test_code_outside_of_trials_is_not_interrupted():
    async def go() -> None:
        with Watch(0.1, lambda _: None).watching():
            time.sleep(0.6)

    asyncio.run(go())


def test_where_the_event_loop_is_not_in_the_main_thread_it_is_told():
    notes: list[str] = []

    async def go() -> None:
        with Watch(0.1, notes.append).watching():
            time.sleep(1.2)

    thread = threading.Thread(target=lambda: asyncio.run(go()))
    thread.start()
    thread.join()
    (note,) = notes
    assert "cannot be interrupted" in note


def test_everything_is_as_before_in_the_end():
    async def go() -> None:
        loop = asyncio.get_running_loop()
        before, threads = signal.getsignal(signal.SIGURG), threading.active_count()
        with Watch(1, lambda _: None).watching():
            assert signal.getsignal(signal.SIGURG) is not before
            assert "time" in vars(loop)
        assert signal.getsignal(signal.SIGURG) is before
        assert "time" not in vars(loop)
        assert threading.active_count() == threads

    asyncio.run(go())


# --- a process that does not run ---


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.booleans()), max_size=30))
def test_time_in_which_this_process_did_not_run_is_left_out(steps):
    """Each step: seconds that pass, those in which this process computes, and whether the thread looks after them."""
    with pytest.MonkeyPatch.context() as patch:
        now, computed = [50.0], [0.0]
        patch.setattr("whichloop.runs.trial.watchdog.time.monotonic", lambda: now[0])
        patch.setattr("whichloop.runs.trial.watchdog.time.process_time", lambda: computed[0])
        clock, most, unseen, own = _Clock(), 50.0, 0.0, 0.0
        before = clock.time()
        for seconds, computing, looks in steps:
            now[0] += seconds
            computed[0] += min(seconds, computing)
            unseen, own = unseen + seconds, own + min(seconds, computing)
            if looks:
                assert clock.beat() == (unseen > max(watchdog.MAX_PAUSE_S, own) + 1e-9) or abs(unseen - own) < 1e-6
                most, unseen, own = most + min(unseen, max(watchdog.MAX_PAUSE_S, own)), 0.0, 0.0
            assert before <= clock.time() <= most + min(unseen, watchdog.MAX_PAUSE_S) + 1e-6
            before = clock.time()
