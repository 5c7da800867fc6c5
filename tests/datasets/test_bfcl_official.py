"""BFCL's published checker: what it takes and what it refuses, and that no stub refuses what it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.test_bfcl import accuracy, function, right, row, write
from whichloop.datasets import bfcl
from whichloop.datasets.bfcl.official import officially_right
from whichloop.datasets.task import Suite

PAGE = Path(__file__).parents[2] / "docs" / "suites.md"
CELL = re.compile(r"`([^`]*)`")


def differences() -> list[Any]:
    """The rows of the page's table: the parameter, the allowed values of each wanted call, the values given, both verdicts."""
    rows = [
        line.strip("| \n").split(" | ")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.endswith((" right |", " wrong |"))
    ]
    made = []
    for name, kind, allowed, values, official, strict in rows:
        cells = (list(map(json.loads, CELL.findall(cell))) for cell in (kind, allowed, values))
        made.append(pytest.param(*cells, official, strict, id=name))
    return made


def suite_of(folder: Path, kind: Any, allowed: list[Any], checker: bfcl.Checker) -> Suite:
    question = row("parallel_0", function("f", [], x=kind))
    answer = right("parallel_0", *({"f": {"x": options}} for options in allowed))
    return bfcl.load(data=write(folder, [question], [answer]), checker=checker)


@pytest.mark.parametrize(("kinds", "allowed", "given_values", "official", "strict"), differences())
def test_the_checkers_differ_as_the_page_says(
    tmp_path: Path, kinds: list[Any], allowed: list[Any], given_values: list[Any], official: str, strict: str
) -> None:
    verdicts = []
    for checker in ("official", "strict"):
        suite = suite_of(tmp_path, kinds[0], allowed, checker)
        score = accuracy(suite, suite.tasks[0], *(("f", {"x": value}) for value in given_values[0]))
        verdicts.append("right" if score == 1 else "wrong")
    assert verdicts == [official, strict]


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
    suite = suite_of(tmp_path_factory.mktemp("bfcl"), kind, [options], "official")
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


def test_no_allowed_value_is_no_task(tmp_path: Path) -> None:
    question = row("live_simple_0-0-0", function("f", [], x="string"))
    task = bfcl.load(data=write(tmp_path, [question], [right("live_simple_0-0-0", {"f": {"x": []}})])).tasks[0]
    assert task.quarantined == "possible_answer: call 1, 'f': no value of 'x' is allowed, and neither is leaving it out"


def test_null_may_be_allowed(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, {"type": "string"}, [["", None]], "official")
    assert accuracy(suite, suite.tasks[0], ("f", {"x": None})) == 1
    assert accuracy(suite, suite.tasks[0], ("f", {})) == 1
    assert accuracy(suite, suite.tasks[0], ("f", {"x": "null"})) == 0


def test_a_checker_is_official_or_strict(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bfcl: checker is 'lax', and must be one of official, strict"):
        bfcl.load(data=tmp_path, checker="lax")  # type: ignore[arg-type]
