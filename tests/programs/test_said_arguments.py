"""A call with the arguments of another type, or with defaults filled in, is the call that the model said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.scripted_calls import NATIVE
from whichloop.programs.gateway import ModelArguments
from whichloop.protocol import Act, Request, Tool, Toolbox, ToolCall


def price(amount: float, currency: str = "EUR", digits: int = 2) -> str:
    """A price in words."""
    return f"{amount} {currency} {digits}"


def said(*calls):
    kept = ModelArguments(Toolbox((Tool.from_function(price),)))
    for call in calls:
        kept.add(Request(messages=(), codec=NATIVE), NATIVE.render(Act("", (ToolCall("price", call),))))
    return kept


@given(st.integers(-(10**6), 10**6), st.booleans())
def test_a_number_read_as_float_and_a_default_that_is_filled_in_are_what_was_said(amount, fills):
    given_arguments = {"amount": float(amount), **({"currency": "EUR", "digits": 2} if fills else {})}
    found = said({"amount": amount}).as_said("price", given_arguments)
    assert found == {"amount": amount}
    assert isinstance(found["amount"], int)


@pytest.mark.parametrize("other", [{"amount": 4.0}, {"amount": "much"}, {}, {"amount": 3, "colour": "red"}])
def test_another_call_and_one_that_the_tool_refuses_stay_as_they_are(other):
    assert said({"amount": 3}).as_said("price", other) is other
    assert said({"amount": 3}).as_said("unknown", other) is other
