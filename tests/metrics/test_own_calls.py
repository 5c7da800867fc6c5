"""What a loop asks for by itself: requests that it sends again, and calls that it makes again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import course
from whichloop.metrics.trajectory.written_calls import RequestCounts, own_runs

QUESTION = [{"role": "user", "content": "how much?"}]


def ask(*calls: str, same: int = 0, messages: Any = QUESTION, role: str = "decide", **fields: Any) -> dict[str, Any]:
    """A request, and the calls in its reply."""
    written = [{"name": call, "arguments": {}} for call in calls]
    move = {"move": {"move": "act", "thought": "", "calls": written}} if calls else {}
    return {"event": "ask", "role": role, "same": same, "messages": messages, "reply": "", **move, **fields}


def ran(tool: str, status: str = "success") -> dict[str, Any]:
    return {"event": "tool", "tool": tool, "arguments": {}, "status": status, "data": "5"}


def trial(*events: dict[str, Any]) -> TracedTrial:
    trace = Trace.from_json({"events": list(events)})
    return TracedTrial(trace, course(trace), None)  # type: ignore[arg-type]  # nothing here reads the record


def again(**fields: Any) -> dict[str, Any]:
    """The request before it once more."""
    return ask(same=1, messages=[], **fields)


@given(st.lists(st.sampled_from(["add", "price"]), min_size=1, max_size=4), st.integers(0, 3))
def test_a_run_is_the_loop_s_own_where_no_reply_wrote_it(written, more):
    """However often one reply writes a call, it may run as often; each run beyond that is the loop's."""
    runs = [ran(call) for call in written]
    found = list(own_runs(trial(ask(*written), *runs, *[ran(written[0])] * more)))
    assert len(found) == more
    assert all(run.call.tool == written[0] and not run.after_failure for run in found)


def test_a_call_that_another_reply_writes_again_is_the_model_s():
    assert not list(own_runs(trial(ask("add"), ran("add"), ask("add", same=1), ran("add"))))


def test_a_run_after_one_that_failed_is_a_retry():
    (run,) = own_runs(trial(ask("add"), ran("add", "error"), ran("add")))
    assert run.after_failure


def test_a_run_that_the_model_was_asked_about_is_not_the_loop_s_own():
    assert not list(own_runs(trial(ask("add"), ran("add", "error"), ask(role="recover"), ran("add"))))


@pytest.mark.parametrize(
    ("first", "after_error"),
    [({}, 0), ({"wire_error": "no JSON"}, 1), ({"error": {"kind": "timeout", "message": "too late"}}, 1)],
)
def test_a_request_that_shows_nothing_new_is_sent_again(first, after_error):
    counts = RequestCounts.of(trial(ask(**first), again(), ask(same=1)).trace)
    assert (counts.requests, counts.again, counts.again_after_error, counts.most_messages) == (3, 1, after_error, 2)


def test_requests_of_different_kinds_do_not_repeat_each_other():
    assert RequestCounts.of(trial(ask(role="plan"), ask(role="decide")).trace).again == 0
