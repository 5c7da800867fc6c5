"""Plans a line per call: the same after reading, one line for every mistake, and nothing of them is run."""

from __future__ import annotations

import keyword
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.test_plan import keys, literals, paths
from whichloop.protocol import Plan, PlannedCall, Ref
from whichloop.protocol.plan_lines import plan_from_lines, plan_to_lines

names = st.from_regex(r"[a-z][a-z_0-9]{0,5}", fullmatch=True).filter(lambda text: not keyword.iskeyword(text) and text != "answer")
goals = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("#")
)


def values(known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    leaves: st.SearchStrategy[Any] = literals | st.builds(Ref, st.sampled_from(known), paths) if known else literals
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = tuple(draw(st.lists(names, max_size=3, unique=True)))
    said = draw(st.lists(goals, min_size=len(ids), max_size=len(ids), unique=True))
    calls = tuple(
        PlannedCall(name, ".".join(draw(st.lists(names, min_size=1, max_size=2))), draw(arguments(ids[:index])), goal)
        for index, (name, goal) in enumerate(zip(ids, said, strict=True))
    )
    return Plan(calls, draw(values(ids)))


def arguments(known: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names | keys, values(known), max_size=3)


@given(plans())
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


def test_goals_references_and_the_answer() -> None:
    plan = plan_from_lines(
        """
        lamp = price(item='lamp')  # what a lamp costs
        left = stock(item='lamp')
        worth(
            a=lamp['euros'],  # in euros
            b=left,
        )
        answer = {'worth': call3[0], 'sure': true}
        """
    )
    assert [call.id for call in plan.calls] == ["lamp", "left", "call3"]
    assert [call.goal for call in plan.calls] == ["what a lamp costs", "stock(item='lamp')", "in euros"]
    assert plan.calls[2].arguments == {"a": Ref("lamp", ("euros",)), "b": Ref("left")}
    assert plan.answer == {"worth": Ref("call3", (0,)), "sure": True}


def test_without_a_line_for_it_the_answer_is_the_tasks() -> None:
    assert plan_from_lines("price(item='lamp')", 39.9).answer == 39.9
    assert plan_from_lines("", 3) == Plan((), 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("price('lamp')", "plan, line 1: name the argument 'lamp' of price: price(NAME='lamp')"),
        ("x = 3", "plan, line 1: 3 is no call; a line is a call, such as price(item='lamp')"),
        *(
            (f"x = {line}", "names such as get-price or from need the plan in JSON")
            for line in (
                "get-price(item='lamp')",
                "fs/read(a=1)",
                "the price(a=1)",
                "9lives(a=1)",
                "f(from='a')",
                "f(a=get-price(b=1))",
            )
        ),
        ("one = f(x=1)\nf(x=on)", "plan, line 2: no earlier line is named 'on'; did you mean 'one'?"),
        ("a = f(x=1)\na = f(x=2)", "plan, line 2: two lines are named 'a'"),
        ("f(x=1)\nf(x=1)", "plan, line 2: two lines are for 'f(x=1)'; say after a # what each is for"),
        ("answer = 1\nf(x=2)", "plan, line 1: the answer comes after the last call"),
        ("import os", "plan, line 1: a line is a call"),
        (
            "answer = multiply(a=2)",
            "plan, line 1: multiply(a=2) is a call: name it on a line of its own before, result = multiply(a=2)",
        ),
        ("f(x=__import__('os'))", "plan, line 1: __import__('os') is neither a literal nor the name of an earlier call"),
        ("f(x=1 + 1)", "plan, line 1: 1 + 1 is neither"),
        ("f(x=1e999)", "plan, line 1: a number is too large"),
        ("f(x=b'')", "plan, line 1: b'' is neither"),
        ("f(x={'a': 1, 'a': 2})", "has a key twice"),
        ("f(x={1: 2})", "the key 1 of an object is not text"),
        ("f(x={'$ref': 'a'})", "a literal holds the key '$ref'"),
        ("f(x=1, **{'x': 2})", "f gets the argument 'x' twice"),
        ("f(**3)", "after ** stands an object of arguments"),
        ("a = f(x=1)\nf(x=a[True])", "plan, line 2: True is neither a key nor an index"),
        ("f(x=1)(y=2)", "plan, line 1: f(x=1) is no tool's name"),
        ("f(x=", "plan, line 1: "),
        ("(" * 300, "too many nested parentheses"),
        ("a = f(x=1)\nf(y=a" + "[0]" * 20_000 + ")", "plan: it is nested too deep"),
        ("a = f(x=1)\nf(y=" + "7" * 5_000 + ")", "plan, line 2: Exceeds the limit (4300 digits)"),
        ("f(0x" + "7" * 5_000 + ")", "plan: it cannot be parsed (Exceeds the limit (4300 digits)"),
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
        PlannedCall("a b", "f", {}, "g"),
        PlannedCall("a", "my-tool", {}, "g"),
        PlannedCall("answer", "f", {}, "g"),
        PlannedCall("a", "f", {}, "two\nlines"),
        PlannedCall("a", "f", {}, "g", alternatives=(PlannedCall("a", "h", {}, "i"),)),
    ],
)
def test_what_lines_cannot_say_is_refused(call: PlannedCall) -> None:
    with pytest.raises(ValueError, match=r"^plan: .*call '"):
        plan_to_lines(Plan((call,), None))
