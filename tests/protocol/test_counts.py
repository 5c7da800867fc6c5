"""Numbers with what they count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol.values import counted


@given(st.integers(0, 10**9))
def test_only_one_is_singular(number):
    words = counted(number, "task")
    assert int(words.removesuffix("s").removesuffix(" task").replace(",", "")) == number
    assert words.endswith("task") == (number == 1)


@pytest.mark.parametrize(("number", "said"), [(0, "0 replies are lost"), (1, "1 reply is lost"), (1_200, "1,200 replies are lost")])
def test_a_plural_may_be_more_than_an_s(number, said):
    assert counted(number, "reply is lost", "replies are lost") == said
