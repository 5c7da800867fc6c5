"""What a server tells of requests: each line once, few at a time, and none lost without a word."""

from __future__ import annotations

import itertools
import logging
import re
import sys

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.serve.pages import MAX_CHARS, MAX_LINES, SAME_AFTER_S, WITHIN_S, RateLimitedHandler


def told_at(asked: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """What is told of lines that are logged after so many seconds each."""
    now, told = [0.0], []
    handler = RateLimitedHandler(lambda line: told.append((now[0], line)), lambda: now[0])
    for pause, line in asked:
        now[0] += pause
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "%s", (line,), None))
    return told


@given(st.lists(st.tuples(st.floats(0, 20), st.sampled_from(["a", "b", "c", "d"])), max_size=60))
def test_lines_are_told_seldom_and_those_held_back_are_counted(asked: list[tuple[float, str]]) -> None:
    told = told_at(asked)
    times = [at for at, _ in told]
    assert all(later - sooner >= WITHIN_S for sooner, later in zip(times, times[MAX_LINES:], strict=False))
    for line in "abcd":
        same = [at for at, said in told if said[0] == line]
        assert all(later - sooner >= SAME_AFTER_S for sooner, later in itertools.pairwise(same))
    counted = sum(int(found[1]) for _, said in told if (found := re.search(r"\((\d+) lines? held", said)))
    assert len(told) + counted <= len(asked)
    assert {said[0] for _, said in told} <= {line for _, line in asked}
    assert bool(told) == bool(asked)


def test_a_line_is_one_line_without_secrets_and_not_without_end() -> None:
    ((_, said),) = told_at([(0, "a\nb\x1b[31m sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3 " + "x" * 1_000)])
    assert "\n" not in said
    assert "\x1b" not in said
    assert "sk-proj" not in said
    assert len(said) == MAX_CHARS


def test_a_failure_of_the_server_is_told_with_its_reason() -> None:
    told: list[str] = []
    handler = RateLimitedHandler(told.append)
    try:
        raise KeyError("x")
    except KeyError:
        handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "a request failed", (), sys.exc_info()))
    assert told == ["a request failed: KeyError: 'x'"]
