"""A call with the arguments of another type, or with defaults filled in, is the call that the model said."""

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.scripted_calls import NATIVE
from whichloop.programs.gateway import ModelArguments
from whichloop.protocol import Act, Request, Tool, Toolbox, ToolCall


def price(amount: float, currency: str = "EUR", digits: int = 2) -> str:
    """A price in words."""
    return f"{amount} {currency} {digits}"


TOOLS = Toolbox((Tool.from_function(price),))
REQUEST = Request(messages=(), codec=NATIVE)


def said(*calls):
    kept = ModelArguments(TOOLS)
    for call in calls:
        kept.add(REQUEST, NATIVE.render(Act("", (ToolCall("price", call),))))
    return kept


@given(st.integers(-(10**6), 10**6))
def test_a_number_read_as_float_is_the_number_that_was_said(amount):
    found = said({"amount": amount}).as_said("price", {"amount": float(amount)})
    assert found == {"amount": amount}
    assert isinstance(found["amount"], int)


@given(st.integers(0, 9))
def test_a_default_that_a_framework_fills_in_was_not_said(amount):
    filled = {"amount": float(amount), "currency": "EUR", "digits": 2}
    assert said({"amount": amount}).as_said("price", filled) == {"amount": amount}


def test_the_latest_of_equal_calls_counts():
    kept = said({"amount": 3}, {"amount": 3, "digits": 2})
    assert kept.as_said("price", {"amount": 3.0}) == {"amount": 3, "digits": 2}


@given(st.integers(0, 5), st.integers(0, 5))
def test_another_call_stays_as_it_is(one, other):
    given_arguments = {"amount": float(one)}
    found = said({"amount": other}).as_said("price", given_arguments)
    assert (found is given_arguments) == (one != other)


def test_arguments_that_the_tool_refuses_stay_as_they_are():
    kept = said({"amount": 3})
    for bad in ({"amount": "much"}, {}, {"amount": 3, "colour": "red"}):
        assert kept.as_said("price", bad) == bad
    assert kept.as_said("unknown", {"a": 1}) == {"a": 1}
