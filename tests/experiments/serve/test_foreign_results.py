"""What the text of a program's own tool means, and what a server tells of requests: each as one line."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.serve.pages import MAX_CHARS, LineHandler
from whichloop.experiments.serve.trials import is_error, read_result, same_result, unwrapped

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["data", "result", "text", "status", "ok", "other"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_however_it_is_written(number):
    for text in (json.dumps(number), json.dumps(json.dumps(number)), f" {number} "):
        assert same_result(read_result(text), number)
        assert not is_error(text)


HELD: list[tuple[Any, Any]] = [
    ({"status": "success", "data": "180", "tool_name": "multiply"}, 180),
    ({"result": {"value": 3}}, 3),
    ([{"type": "text", "text": "3.5"}], 3.5),
    *((value, value) for value in ({"status": "shipped", "order": 17}, {"data": 1, "value": 2}, {"status": "success"}, 3, None)),
    ([{"text": "1"}, {"text": "2"}], [{"text": "1"}, {"text": "2"}]),
]


@given(json_values)
def test_an_envelope_is_looked_into_and_what_is_held_needs_it_once(value):
    inner = unwrapped(value)
    assert unwrapped(inner) == inner
    assert [unwrapped(value) for value, _ in HELD] == [held for _, held in HELD]


ALIKE: list[tuple[Any, Any]] = [
    (9, "9"),
    ("9.0", 9),
    (1 / 3, 0.3333333333333),
    ("a", "a"),
    ({"x": 1}, {"x": 1.0}),
    ([1, "2"], [1, 2]),
]
OTHER: list[tuple[Any, Any]] = [(9, 8), (True, 1), ({"x": 1}, {"y": 1}), ([1], [1, 2]), (None, 0), (10**400, 1.0)]
FAILED = (
    *("Error: x", "error", "ZeroDivisionError: division by zero", '{"error": "x"}', '{"ok": false, "result": null}'),
    '{"status": "error", "data": "no such city", "tool_name": "find"}',
)
WORKED = (
    *('{"error": null, "value": 3}', "errors are 3", "the error is 0.3", "3", "", '{"status": "failed", "order": 17}'),
    '{"status": "success", "data": "3", "tool_name": "add"}',
)


def test_equal_results_are_told_from_others_and_errors_by_their_beginning():
    assert [pair for pair in [*ALIKE, *OTHER] if same_result(*pair)] == ALIKE
    assert [text for text in (*FAILED, *WORKED) if is_error(text)] == [*FAILED]


def test_a_line_is_one_line_without_secrets_and_not_without_end_and_a_failure_has_its_reason_and_is_not_told_twice() -> None:
    told: list[str] = []
    handler = LineHandler(told.append)
    said = "a\nb\x1b[31m sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3 " + "x" * 1_000
    for _ in range(2):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "%s", (said,), None))
    (line,) = told
    assert not [each for each in ("\n", "\x1b", "sk-proj") if each in line]
    assert len(line) == MAX_CHARS
    try:
        raise KeyError("x")
    except KeyError:
        handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "a request failed", (), sys.exc_info()))
    assert told[1:] == ["a request failed: KeyError: 'x'"]
