"""Plans as people write them: their JSON schema and their reader hold each other, and a mistake is told with its place."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.protocol.test_plan import plans
from whichloop.datasets.importing.plan_model import plan_schema, read_plan, shape_mistakes, single_plan
from whichloop.protocol import Plan, ToolSpec, plan_to_json

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
        | anything
    },
    optional={"answer": anything, "more": anything},
)


def is_read(value: Any) -> bool:
    told = shape_mistakes(value)
    assert not any("\n" in text for text in told)
    return not told


@given(plans)
def test_every_plan_that_is_written_fits_the_schema(plan: Plan) -> None:
    written = plan_to_json(plan)
    SCHEMA.validate(written)
    assert read_plan("plan", written, None) == plan


@settings(max_examples=cases(60))
@given(nearly)
def test_the_reader_takes_what_the_schema_takes(value: Any) -> None:
    assert is_read(value) == SCHEMA.is_valid(value)


ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"], "additionalProperties": False}
TOOLS = {name: ToolSpec(name, "", ITEM) for name in ("price", "stock")}


def mistakes(text: str) -> list[tuple[int, str]]:
    plan = single_plan(text)
    assert (plan.plan is None) == bool(plan.mistakes)
    return [*plan.mistakes, *plan.misfits(TOOLS)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("first = price(item='lamp')\nsecond = stock(itm=first)\nthird = stock(4)\nprise(item=third)", [3, 2, 4]),
        ("first = price(item='lamp')\nsecond = stock(item=)\nprise(item=third)", [2]),
        ("first = price('lamp')\nstock(item=first)", [1]),
        (json.dumps({"calls": [CALL | {"tool": "price", "arguments": {"itm": 1}}], "answer": 1}), [0]),
        (json.dumps({"calls": [CALL | {"goal": 3}, {}], "answr": 1}), [0] * 7),
        (json.dumps([CALL | {"tool": "price", "arguments": {"item": "lamp"}}]), []),
    ],
)
def test_each_mistake_of_a_plan_in_a_file_is_told(text: str, told: list[int]) -> None:
    assert sorted({line for line, _ in mistakes(text)}) == sorted(set(told))
    if 0 in told and len(told) > 1:
        assert len(mistakes(text)) == len(told)
