"""How long a run takes, told once and only of a long one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.reports.progress.counts import LONG_S, MIN_TASKS, Pace, about, fewer_tasks


@given(st.floats(0.01, 1e5), st.integers(2, 10_000), st.integers(1, 5_000))
def test_a_steady_run_is_estimated_as_it_will_take_and_told_once_if_it_is_long(seconds_each, total, asked):
    told: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        now = [7.0]
        patch.setattr("whichloop.reports.progress.counts.time.monotonic", lambda: now[0])
        pace, done = Pace(), 0
        while done < min(total, asked):
            now[0] += seconds_each
            done += 1
            before = len(told)
            pace.tell(done, total, told.append)
            if len(told) > before:
                assert told[0] == pytest.approx((total - done) * seconds_each)
                assert told[0] > LONG_S
    assert len(told) <= 1
    if min(total, asked) > 2 and seconds_each > LONG_S and asked > 2 and total > 3:
        assert told


@given(st.integers(1, 100_000), st.floats(LONG_S, 1e6))
def test_fewer_tasks_are_proposed_that_take_about_a_minute_unless_they_are_too_few(tasks, seconds):
    hint = fewer_tasks(tasks, seconds)
    if tasks <= MIN_TASKS:
        assert hint == ""
    if hint:
        (number,) = map(int, re.findall(r"--tasks (\d+)", hint))
        assert number < tasks
        assert number == MIN_TASKS or number * seconds / tasks <= LONG_S


@pytest.mark.parametrize(
    ("seconds", "said"), [(3, "10 s"), (61, "60 s"), (119, "2 min"), (180, "3 min"), (3600, "60 min"), (9000, "2.5 h")]
)
def test_durations_are_said_as_exactly_as_they_are_known(seconds, said):
    assert about(seconds) == f"about {said}"
