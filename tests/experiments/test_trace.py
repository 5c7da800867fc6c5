"""The recorder: a trace is one line of JSON in ASCII, whatever a loop hands over, and says the same by either encoder."""

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

from loopbench.experiments import trace
from loopbench.experiments.trace import Recorder

HEAD = {"arm": "a", "task": "t", "repeat": 0}


@dataclass(frozen=True)
class Thing:
    """Of a loop's own."""

    name: str = "thing"


class Text(str):
    """A text that is more than one."""

    __slots__ = ()


class Colour(Enum):
    """Neither text nor number."""

    RED = "red"


TEXTS = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(["null", "NaN", '"', "\\", "\x7f", "\ud800", "é", "\n"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**80), 2**80) | st.floats() | TEXTS | st.binary(max_size=4)
    | st.sampled_from([Thing(), Text("x"), datetime(2026, 1, 1, tzinfo=UTC), uuid.UUID(int=7), {1, 2}, 10**400, object])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXTS | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)


def noted(value: Any) -> Any:
    """What the trace says of it."""
    recorder = Recorder()
    recorder.note("kind", data=value)
    line = recorder.line(HEAD)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line.decode("ascii"))["events"][0]["data"]


@given(VALUES)
def test_the_quick_encoder_says_what_the_careful_one_says(value):
    assert noted(value) == json.loads(trace._encoded(value))


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": -float("inf")}])
def test_what_json_has_no_number_for_is_text_and_not_nothing(value):
    assert "null" not in json.dumps(noted(value))


def test_an_enums_member_is_legible():
    assert noted([Colour.RED]) in (["red"], ["Colour.RED"])


def test_a_secret_is_taken_out_of_what_is_encoded_quickly(monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", "correct-horse-battery-7")
    assert noted({"said": "it is correct-horse-battery-7"}) == {"said": "it is [redacted]"}
    assert noted({"said": "sk-proj-abcdefghijklmnop1234"}) == {"said": "[redacted]"}
