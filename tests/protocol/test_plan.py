"""Plans: checked when made, the same after JSON, and resolved from results."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.protocol import Plan, PlannedCall, Ref, plan_from_json, plan_to_json, refs, resolve

keys = st.text(max_size=6).filter(lambda key: key != "$ref")
literals = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
paths = st.lists(st.text(max_size=4) | st.integers(-3, 3), max_size=3).map(tuple)


IDS = ("c1", "", "$ref", "é\ud800")


@cache
def values(known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """JSON with references to `known` calls at any depth."""
    leaves: st.SearchStrategy[Any] = literals | st.builds(Ref, st.sampled_from(known), paths) if known else literals
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8)


def planned_calls(index: int) -> st.SearchStrategy[PlannedCall]:
    name, arguments = st.just(IDS[index]), st.dictionaries(keys, values(IDS[:index]), max_size=2)
    goal = st.text(max_size=4).map(lambda text: f"{index} {text}")
    alternatives = st.lists(st.builds(PlannedCall, name, st.text(max_size=4), arguments, goal), max_size=1).map(tuple)
    after = st.sets(st.sampled_from(IDS[:index]), max_size=2).map(tuple) if index else st.just(())
    return st.builds(PlannedCall, name, st.text(max_size=4), arguments, goal, alternatives, st.booleans(), after)


def plans_of(size: int) -> st.SearchStrategy[Plan]:
    return st.builds(Plan, st.tuples(*[planned_calls(index) for index in range(size)]), values(IDS[:size]))


plans = st.one_of([plans_of(size) for size in range(len(IDS) + 1)])


def walk(value: object) -> list[object]:
    """All leaves of a value."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    return [value] if items is None else [leaf for item in items for leaf in walk(item)]


@settings(max_examples=cases(25))
@given(plans)
def test_a_plan_is_the_same_after_json(plan: Plan) -> None:
    again = plan_from_json(json.loads(json.dumps(plan_to_json(plan))))
    assert again == plan
    assert again.dependencies == plan.dependencies


@settings(max_examples=cases(25))
@given(plans)
def test_dependencies_are_the_references_of_each_call(plan: Plan) -> None:
    for call in plan.calls:
        found = {leaf.call for leaf in walk(call.arguments) if isinstance(leaf, Ref)}
        assert plan.dependencies[call.id] == found | set(call.after)
    assert list(plan.dependencies) == [call.id for call in plan.calls]


@given(values(("a", "b")))
def test_refs_finds_every_reference_and_nothing_else(value: object) -> None:
    assert list(refs(value)) == [leaf for leaf in walk(value) if isinstance(leaf, Ref)]


@given(values(()))
def test_without_references_resolving_changes_nothing(value: object) -> None:
    assert resolve(value, {}) == value


@given(values(("a",)).map(lambda value: json.loads(json.dumps(value, default=lambda ref: {"$whole": ref.call}))), literals)
def test_resolving_puts_the_result_in_every_place_of_its_reference(shape: object, result: object) -> None:
    def fill(value: Any, leaf: Callable[[], Any]) -> Any:
        if isinstance(value, dict):
            return leaf() if "$whole" in value else {key: fill(item, leaf) for key, item in value.items()}
        return [fill(item, leaf) for item in value] if isinstance(value, list) else value

    assert resolve(fill(shape, lambda: Ref("a")), {"a": result}) == fill(shape, lambda: result)


def test_a_path_leads_into_the_result() -> None:
    results = {"c1": {"rows": [{"price": 3}, {"price": 4}]}}
    given_ = {"price": Ref("c1", ("rows", -1, "price")), "all": [Ref("c1")], "pair": (1, Ref("c1", ("rows", 0)))}
    assert resolve(given_, results) == {"price": 4, "all": [results["c1"]], "pair": [1, {"price": 3}]}


@pytest.mark.parametrize(
    ("ref", "error"),
    [(Ref("c2"), KeyError), (Ref("c1", ("b",)), KeyError), (Ref("c1", ("a", 5)), IndexError), (Ref("c1", ("a", "x")), TypeError)],
)
def test_a_reference_to_nothing_raises(ref: Ref, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve({"x": [ref]}, {"c1": {"a": [1]}})


def planned(name: str, goal: str = "", **arguments: object) -> PlannedCall:
    return PlannedCall(name, "tool", arguments, goal or f"goal of {name}")


@pytest.mark.parametrize(
    ("calls", "answer", "message"),
    [
        ((planned("a"), planned("a", "other")), 1, "'a' is a duplicate"),
        ((planned("a", "same"), planned("b", "same")), 1, "same goal"),
        ((planned("a", x=Ref("b")), planned("b")), 1, "'a' refers to 'b', not before it"),
        ((planned("a", x=[{"deep": Ref("a")}]),), 1, "'a' refers to 'a'"),
        ((PlannedCall("a", "t", {}, "g", after=("b",)), planned("b")), 1, "'a' refers to 'b', not before it"),
        ((planned("a"),), {"value": Ref("z")}, "answer refers to 'z', a call that is not in the plan"),
        ((), Ref("a"), "answer refers"),
        ((PlannedCall("a", "t", {}, "g", alternatives=(planned("b"),)),), 1, "alternative of call 'a' has another id"),
        ((PlannedCall("a", "t", {}, "g", alternatives=(planned("a", x=Ref("z")),)),), 1, "'a' refers to 'z'"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(calls: tuple[PlannedCall, ...], answer: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(calls, answer)


def test_a_broken_plan_in_json_is_refused() -> None:
    good = plan_to_json(Plan((planned("a"), planned("b", x=Ref("a"))), Ref("b")))
    with pytest.raises(KeyError):
        plan_from_json({"calls": good["calls"]})
    with pytest.raises(KeyError):
        plan_from_json({"calls": [{"id": "a", "tool": "t", "arguments": {}}], "answer": 1})
    with pytest.raises(ValueError, match="not before it"):
        plan_from_json({"calls": good["calls"][::-1], "answer": 1})


@pytest.mark.parametrize("literal", [{"$ref": "a"}, [{"deep": {"$ref": 3, "path": []}}]])
def test_a_literal_that_would_be_read_back_as_a_reference_is_refused(literal: object) -> None:
    for plan in (Plan((planned("a"), planned("b", x=literal)), 1), Plan((planned("a"),), literal)):
        with pytest.raises(ValueError, match=r"\$ref"):
            plan_to_json(plan)


def test_json_leaves_out_what_is_not_set() -> None:
    plan = Plan((planned("a"), planned("b", x=Ref("a"), y=Ref("a", ("k", 0)))), None)
    assert plan_to_json(plan) == {
        "calls": [
            {"id": "a", "tool": "tool", "arguments": {}, "goal": "goal of a"},
            {
                "id": "b",
                "tool": "tool",
                "arguments": {"x": {"$ref": "a"}, "y": {"$ref": "a", "path": ["k", 0]}},
                "goal": "goal of b",
            },
        ],
        "answer": None,
    }
