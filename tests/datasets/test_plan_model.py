"""The JSON schema of plans and their reader hold each other."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.protocol.test_plan import plans
from whichloop.datasets.importing.plan_model import checked_plan, plan_schema
from whichloop.protocol import Plan, plan_from_json, plan_to_json

SCHEMA = jsonschema.Draft202012Validator(plan_schema())
CALL = {"id": "a", "tool": "f", "arguments": {"x": 1}, "goal": "g"}
KEYS = ["$ref", "path", "a", "id", "tool"]
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "calls", "$ref"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
nearly = st.fixed_dictionaries(
    {
        "calls": st.lists(
            st.fixed_dictionaries(
                {"id": st.just("a") | anything, "tool": st.just("f") | anything, "goal": st.just("g") | anything},
                optional={
                    "arguments": st.dictionaries(st.just("x"), anything, max_size=1) | anything,
                    "fails": anything,
                    "after": anything,
                    "alternatives": st.just([]) | anything,
                    "more": anything,
                },
            ),
            max_size=2,
        )
        | anything,
    },
    optional={"answer": anything, "more": anything},
)


def is_read(value: Any) -> bool:
    told = ""
    try:
        checked_plan(value)
    except ValueError as error:
        told = str(error)
    assert "\n" not in told
    return not told


@given(plans)
def test_every_plan_that_is_written_fits_the_schema(plan: Plan) -> None:
    written = plan_to_json(plan)
    SCHEMA.validate(written)
    assert plan_from_json(checked_plan(written)) == plan


@settings(max_examples=cases(60))
@given(nearly)
def test_the_reader_takes_what_the_schema_takes(value: Any) -> None:
    assert is_read(value) == SCHEMA.is_valid(value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, "calls is missing"),
        ({"calls": [{}], "answer": 1}, "calls[0].id is missing"),
        ({"calls": [CALL | {"goal": 3}], "answer": 1}, "calls[0].goal: text belongs here"),
        ({"calls": [CALL | {"argumens": {}}], "answer": 1}, "calls[0].argumens: there is no such field; did you mean 'arguments'?"),
        ({"calls": [CALL], "answr": 1}, "answr: there is no such field; did you mean 'answer'?"),
        ({"calls": [CALL]}, "answer is missing"),
        ({"calls": [CALL | {"arguments": {"x": {"$ref": 3}}}], "answer": 1}, "calls[0].arguments.x: a reference is"),
        ({"calls": [], "answer": {"$ref": "a", "path": "b"}}, "answer: a reference is"),
        (3, "a plan is an object with calls and answer, a list of calls, or a call a line"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        checked_plan(value)
