"""Faults of tools whose calls a loop was told to make and did not run: left behind by a trial that ended, or passed over."""

from __future__ import annotations

from contextvars import copy_context

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.faults import Fault, FaultPoint
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Observation

GOOD = Observation("t", "success", "1", None, 1, "")
BAD = Observation("t", "error", "no", "ToolError", None, "")


def waiting(*calls: str) -> Tunnel:
    """Return a trial whose loop has just been told to make these calls, each with a fault that waits for it."""
    tunnel = Tunnel()
    tunnel.note_request("")
    for call in calls:
        tunnel.arm(call, Fault("tool.raises", FaultPoint("decide", call), "never", 0))
    return tunnel


def run(tunnel: Tunnel, call: str) -> None:
    fault = tunnel.take(call)
    assert fault is not None
    tunnel.land(fault, None, True)
    tunnel.note_result(call, BAD)


@given(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_what_was_not_run_when_the_trial_ended_is_unmet(told: set[str], made: set[str]) -> None:
    tunnel = waiting(*told)
    for call in told & made:
        run(tunnel, call)
    assert tunnel.unmet() == len(told - made)


@given(st.integers(1, 4))
def test_a_call_that_the_loop_went_on_without_is_passed_over(often: int) -> None:
    """Its tool may have run where no fault reaches it, so that nothing excuses that the fault did not land."""
    tunnel = waiting("a")
    for _ in range(often):
        tunnel.note_request("")
    tunnel.arm("a", tunnel._armed["a"][0][1])
    assert tunnel.unmet() == 0


def test_calls_behind_one_that_failed_may_be_left_out() -> None:
    tunnel = waiting("a", "b")
    run(tunnel, "a")
    tunnel.note_request("")
    assert tunnel.unmet() == 1
    tunnel.note_request("")
    assert tunnel.unmet() == 0


def test_a_call_that_gave_a_result_excuses_nothing() -> None:
    tunnel = waiting("b")
    tunnel.note_result("a", GOOD)
    tunnel.note_request("")
    assert tunnel.unmet() == 0


def test_another_scope_s_request_passes_nothing_over() -> None:
    tunnel = waiting("a")
    copy_context().run(tunnel.note_request, "branch")  # the scope is the context's, and this one is the other tests', too
    assert tunnel.unmet() == 1
