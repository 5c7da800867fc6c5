"""BFCL's published checker: what it takes and what it refuses, and that no stub refuses what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.test_bfcl import function, right, row, write
from tests.datasets.test_tau2 import accuracy
from whichloop.datasets import bfcl
from whichloop.datasets.bfcl.official import officially_right
from whichloop.datasets.task import Suite


def suite_of(folder: Path, kind: Any, allowed: list[Any]) -> Suite:
    question = row("parallel_0", function("f", [], x=kind))
    answer = right("parallel_0", *({"f": {"x": options}} for options in allowed))
    return bfcl.load(data=write(folder, [question], [answer]))


FLOATS, TEXTS = ({"type": "array", "items": {"type": kind}} for kind in ("float", "string"))
SIDES = {"type": "dict", "properties": {"w": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("kind", "allowed", "made", "score"),
    [
        ({"type": "string", "enum": ["Small", "Large"]}, [["Small"]], ["small."], 1),  # an enum goes by letters and digits
        (FLOATS, [[[1.0, 2.5]]], [[1, 2.5]], 0),  # an int does for a float, but not inside of a list
        (SIDES, [[{"w": [3]}]], [{"w": 3.0}], 1),  # types inside of an object are not looked at
        ({"type": "dict"}, [[{"k": [["Big Ben"]]}]], [{"k": ["big ben"]}], 0),  # nor are texts in a list inside of one
        (TEXTS, [["", ["a"]]], [[]], 1),  # an empty list where nothing need be given
        ({"type": "any"}, [[5, "Five"]], ["five"], 0),  # a text where the first allowed value is none
        ({"type": "integer"}, [[1, 2], [1]], [1, 2], 0),  # a call that fits two wanted ones takes the first
        ({"type": "string"}, [["", None]], [None], 1),  # null may be allowed
        ({"type": "string"}, [["", None]], ["null"], 0),
    ],
)
def test_the_oddities_of_the_published_checker(
    tmp_path: Path, kind: Any, allowed: list[Any], made: list[Any], score: float
) -> None:
    suite = suite_of(tmp_path, kind, allowed)
    assert accuracy(suite, suite.tasks[0], *(("f", {"x": value}) for value in made)) == score


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("aB .'", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "float", "boolean", "any", "dict")),
        {"type": "string", "enum": ["a", "B."]},
        *(
            {"type": kind, "items": {"type": items}}
            for kind in ("array", "tuple")
            for items in ("string", "integer", "float", "dict")
        ),
    ]
)


@given(KINDS, st.lists(VALUES | st.just(""), min_size=1, max_size=3), VALUES, st.data())
def test_no_stub_refuses_what_the_published_checker_takes(
    tmp_path_factory: Any, kind: Any, options: list[Any], value: Any, data: Any
) -> None:
    value = data.draw(st.sampled_from([value, *options]))
    suite = suite_of(tmp_path_factory.mktemp("bfcl"), kind, [options])
    task = suite.tasks[0]
    call = {"function": "f", "arguments": {"x": value}}
    if officially_right(task.expected, [call], task.world["functions"]):
        assert accuracy(suite, task, ("f", {"x": value})) == 1


def test_relevance_is_right_with_any_call(tmp_path: Path) -> None:
    suite = bfcl.load(data=write(tmp_path, [row("live_relevance_0-0-0", function("f", x="integer"))]))
    task = suite.tasks[0]
    assert task.plan is None
    assert not task.quarantined
    assert "any call of a function counts as right" in task.no_plan
    assert accuracy(suite, task) == 0
    assert accuracy(suite, task, ("f", {"x": 7})) == 1
