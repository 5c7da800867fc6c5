"""Which runs of a trial's tools are calls as the model wrote them, and which are not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory.trajectory import runs_not_as_written

NUMBERS = st.integers(0, 3)
TURNS = st.lists(st.lists(NUMBERS, unique=True, min_size=1, max_size=3), max_size=4)
"""Replies, each as the arguments of its calls."""


def ask(*numbers: int, **more: Any) -> dict[str, Any]:
    calls = [{"name": "f", "arguments": {"n": number}} for number in numbers]
    move = {"move": {"move": "act", "thought": "", "calls": calls}}
    return {"event": "ask", "role": "decide", "same": 0, "messages": [], "reply": "", **(move if calls else {}), **more}


def ran(number: int, status: str = "success") -> dict[str, Any]:
    return {"event": "tool", "tool": "f", "arguments": {"n": number}, "status": status, "data": "5"}


def otherwise(*events: dict[str, Any]) -> set[int]:
    return set(runs_not_as_written(Trace.from_json({"events": list(events)}).events))


@given(TURNS, st.data())
def test_no_run_of_a_loop_that_makes_the_calls_as_they_were_written_is_told(turns, data):
    """In whatever order it makes those of a reply, and be a call that failed made again."""
    events = []
    for numbers in turns:
        events.append(ask(*numbers))
        for number in data.draw(st.permutations(numbers)):
            failures = data.draw(st.integers(0, 2))
            events += [*([ran(number, "error")] * failures), ran(number)]
    assert otherwise(*events) == set()


@given(TURNS, st.data())
def test_each_run_is_told_whose_arguments_are_others_than_those_of_all_calls(turns, data):
    events, told = [], set()
    for numbers in turns:
        events.append(ask(*numbers))
        for number in numbers:
            is_altered = data.draw(st.booleans())
            if is_altered:
                told.add(len(events))
            events.append(ran(number + 10 if is_altered else number))
    assert otherwise(*events) == told


@given(NUMBERS)
def test_a_run_is_told_whose_call_the_model_wrote_for_another_one(number):
    assert otherwise(ask(number), ran(number), ask(number + 1), ran(number)) == {3}
    assert otherwise(ask(number), ran(number), ran(number)) == {2}


@given(st.lists(NUMBERS, max_size=3))
def test_nothing_is_told_where_the_trace_does_not_say_what_the_model_wrote(numbers):
    assert otherwise(*map(ran, numbers)) == set()
    assert otherwise(ask(), *map(ran, numbers)) == set()


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_what_a_loop_reads_out_of_a_reply_that_could_not_be_read_is_told(numbers):
    unreadable = ask(wire_error="no JSON")
    assert otherwise(unreadable, *map(ran, numbers)) == set(range(1, len(numbers) + 1))
