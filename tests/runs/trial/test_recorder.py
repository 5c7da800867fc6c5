"""The recorder: a trace is one line of JSON in ASCII, whatever a loop hands over."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import Trace, TraceHead
from whichloop.runs.trial.recorder import Recorder, trace_line

HEAD = TraceHead("a", "t", 0)


@dataclass(frozen=True)
class Thing:
    """Of a loop's own."""

    name: str = "thing"


class Text(str):
    """A text that is more than one."""

    __slots__ = ()


class Colour(Enum):
    """Neither text nor number; its value cannot be had."""

    RED = "red"

    @property
    def value(self) -> str:
        raise RuntimeError("no value")


TEXTS = st.text(max_size=12) | st.sampled_from(["null", "NaN", '"', "\\", "\x7f", "\ud800", "é", "\n"])
NUMBERS = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ODD = st.sampled_from(
    [
        Thing(),
        Text("x"),
        Colour.RED,
        datetime(2026, 1, 1, tzinfo=UTC),
        uuid.UUID(int=7),
        {1, 2},
        10**400,
        object,
        b"\xff",
        float("nan"),
    ]
)
ANY = st.recursive(
    PLAIN | ODD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXTS | st.integers() | st.none() | st.just(Colour.RED), inner, max_size=3)
    ),
    max_leaves=8,
)


def noted(value: Any) -> Any:
    """What the trace says of it."""
    recorder = Recorder()
    recorder.note("kind", {"data": value})
    line = trace_line(Trace(HEAD, tuple(recorder.events)))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line.decode("ascii"))["events"][0]["data"]


@given(ANY)
def test_whatever_a_loop_notes_is_one_line_of_json(value):
    noted(value)


@given(PLAIN)
def test_what_json_can_say_is_in_the_trace_as_it_was(value):
    assert noted(value) == value


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": -float("inf")}])
def test_what_json_has_no_number_for_is_text_and_not_nothing(value):
    assert "null" not in json.dumps(noted(value))


def test_a_secret_is_taken_out(monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", "correct-horse-battery-7")
    assert noted({"said": "it is correct-horse-battery-7"}) == {"said": "it is [redacted]"}
    assert noted({"said": "sk-proj-abcdefghijklmnop1234"}) == {"said": "[redacted]"}
