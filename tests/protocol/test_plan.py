"""Plans: checked when made, the same after JSON, and resolved from results."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.models import bench
from whichloop.protocol import Plan, PlannedCall, Ref, plan_from_json, plan_to_json, refs, resolve
from whichloop.protocol.plan_lines import plan_from_lines, plan_to_lines

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


def planned(name: str, goal: str = "", **arguments: object) -> PlannedCall:
    return PlannedCall(name, "tool", arguments, goal or f"goal of {name}")


@pytest.mark.parametrize(
    ("calls", "answer", "message"),
    [
        ((planned("a"), planned("a", "other")), 1, "'a' is a duplicate"),
        ((planned("a", "same"), planned("b", "same")), 1, "same goal"),
        ((planned("a", x=Ref("b")), planned("b")), 1, "'a' refers to 'b', not before it"),
        ((PlannedCall("a", "t", {}, "g", after=("b",)), planned("b")), 1, "'a' refers to 'b', not before it"),
        ((planned("a"),), {"value": Ref("z")}, "answer refers to 'z', a call that is not in the plan"),
        ((PlannedCall("a", "t", {}, "g", alternatives=(planned("b"),)),), 1, "alternative of call 'a' has another id"),
        ((PlannedCall("a", "t", {}, "g", alternatives=(planned("a", x=Ref("z")),)),), 1, "'a' refers to 'z'"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(calls: tuple[PlannedCall, ...], answer: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(calls, answer)


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


@settings(max_examples=cases(30), deadline=None)
@given(plan=bench.plans())
def test_every_reference_is_a_use_and_every_use_a_reference(plan: Plan) -> None:
    used = {(call, path, user) for call, parts in plan.uses.items() for path, users in parts.items() for user in users}
    users: list[tuple[str | None, Any]] = [(None, plan.answer), *((call.id, call.arguments) for call in plan.calls)]
    assert used == {(ref.call, ref.path, user) for user, value in users for ref in refs(value)}


def test_an_alternative_uses_what_it_refers_to() -> None:
    other = PlannedCall("c2", "find", {"name": Ref("c1", ("name",))}, "Find it.")
    first = PlannedCall("c1", "list", {}, "List all.")
    plan = Plan((first, PlannedCall("c2", "look", {"id": Ref("c1", ("id",))}, "Find it.", (other,))), Ref("c2"))
    assert plan.uses == {"c1": {("id",): {"c2"}, ("name",): {"c2"}}, "c2": {(): {None}}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Ref("c2"), {"c2"}), ([Ref("c1"), {"n": Ref("c2")}], {"c1", "c2"}), ("three", {"c2", "c3"}), (None, set())],
)
def test_what_an_answer_rests_on(answer: Any, expected: set[str]) -> None:
    calls = (
        PlannedCall("c1", "add", {"a": 1}, "First."),
        PlannedCall("c2", "add", {"a": Ref("c1")}, "Second."),
        PlannedCall("c3", "book", {"a": 1}, "Third."),
    )
    assert Plan(calls, answer).rests_on == expected


line_names = st.from_regex(r"[a-z][a-z_0-9]{0,5}", fullmatch=True).filter(
    lambda text: not keyword.iskeyword(text) and text != "answer"
)
goals = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("#")
)


@st.composite
def plans_of_lines(draw: st.DrawFn) -> Plan:
    ids = tuple(draw(st.lists(line_names, max_size=3, unique=True)))
    said = draw(st.lists(goals, min_size=len(ids), max_size=len(ids), unique=True))
    calls = tuple(
        PlannedCall(name, ".".join(draw(st.lists(line_names, min_size=1, max_size=2))), draw(arguments(ids[:index])), goal)
        for index, (name, goal) in enumerate(zip(ids, said, strict=True))
    )
    return Plan(calls, draw(values(ids)))


def arguments(known: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(line_names | keys, values(known), max_size=3)


@given(plans_of_lines())
def test_a_plan_is_the_same_after_lines(plan: Plan) -> None:
    assert plan_from_lines(plan_to_lines(plan)) == plan
    assert plan_from_lines(plan_to_lines(plan).splitlines()) == plan


@given(st.text(max_size=60) | st.text("abf(){}[]='\"#,.: \n\\1*", max_size=40))
def test_any_text_is_a_plan_or_one_line_of_error(text: str) -> None:
    told, calls = "", 0
    try:
        calls = len(plan_from_lines(text).calls)
    except ValueError as error:
        told = str(error)
    assert not told or (told.startswith("plan") and "\n" not in told)
    assert calls <= text.count("(")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("price('lamp')", "plan, line 1: name the argument 'lamp' of price: price(NAME='lamp')"),
        ("x = 3", "plan, line 1: 3 is no call"),
        ("a = b = f(x=1)", "a line is a call, such as"),
        ("x = f(from='a')", "need the plan in JSON"),
        ("one = f(x=1)\nf(x=on)", "plan, line 2: no earlier line is named 'on'"),
        ("a = f(x=1)\na = f(x=2)", "plan, line 2: two lines are named 'a'"),
        ("f(x=1)\nf(x=1)", "plan, line 2: two lines are for 'f(x=1)'"),
        ("answer = 1\nf(x=2)", "plan, line 1: the answer comes after the last call"),
        ("answer = multiply(a=2)", "plan, line 1: multiply(a=2) is a call"),
        ("f(x=__import__('os'))", "plan, line 1: __import__('os') is neither a literal nor the name of an earlier call"),
        ("f(x=1e999)", "plan, line 1: a number is too large"),
        ("f(x={'a': 1, 'a': 2})", "has a key twice"),
        ("f(x={'$ref': 'a'})", "a literal holds the key '$ref'"),
        ("f(x=1, **{'x': 2})", "f gets the argument 'x' twice"),
        ("f(x=", "plan, line 1: "),
        ("a = f(x=1)\nf(y=a" + "[0]" * 20_000 + ")", "plan: it is nested too deep"),
        ("a = f(x=1)\nf(y=" + "7" * 5_000 + ")", "plan, line 2: Exceeds the limit (4300 digits)"),
        ("#" * 1_000_001, "plan: longer than 1000000 characters"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_wrong_is_one_line_that_says_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as caught:
        plan_from_lines(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        PlannedCall("a", "f", {}, "g", fails=True),
        PlannedCall("a", "my-tool", {}, "g"),
        PlannedCall("answer", "f", {}, "g"),
        PlannedCall("a", "f", {}, "two\nlines"),
        PlannedCall("a", "f", {}, "g", alternatives=(PlannedCall("a", "h", {}, "i"),)),
    ],
)
def test_what_lines_cannot_say_is_refused(call: PlannedCall) -> None:
    with pytest.raises(ValueError, match=r"^plan: .*call '"):
        plan_to_lines(Plan((call,), None))
