"""The town: what is lost or done twice shows in the end, whichever call it is, and calls at once need nothing of each other."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets import errands
from whichloop.datasets.errands import town as tools
from whichloop.datasets.errands.town import Town
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import carry_out
from whichloop.protocol import Toolbox, ToolCall, run_sync

READS = {"check_price", "find_address", "look_up_bill", "count_purse"}


@pytest.fixture(scope="module")
def many() -> Suite:
    return errands.load(size=120, seed=7)


def state_after(task: Task, suite: Suite, twice: str = "", without: str = "") -> Any:
    """The end state of a plan of which one call runs twice, or another never does."""
    assert task.plan is not None
    with closing(suite.open(task)) as environment:
        toolbox = Toolbox(environment.tools)
        done = run_sync(carry_out(task, [call for call in task.plan.calls if call.id != without], toolbox))
        for call in done:
            if call.call_id == twice:
                run_sync(toolbox.call(ToolCall(call.tool, call.arguments)))
        return environment.state()


def test_a_call_that_is_lost_or_made_twice_makes_the_end_state_wrong(many: Suite) -> None:
    for task in many.tasks[:24]:
        assert task.plan is not None
        assert state_after(task, many) == task.end_state, task.id
        for call in task.plan.calls:
            if call.tool in READS or call.fails:
                assert state_after(task, many, twice=call.id) == task.end_state, (task.id, call.id)
                continue
            assert state_after(task, many, twice=call.id) != task.end_state, (task.id, call.id)
            assert state_after(task, many, without=call.id) != task.end_state, (task.id, call.id)


@given(number=st.integers(1, 10**9), times=st.integers(1, 4))
def test_each_write_takes_effect_as_often_as_it_is_called(number: int, times: int) -> None:
    town, before = Town(number), Town(number)
    shop, prices = next(iter(town.shops.items()))
    thing, price = next(iter(prices.items()))
    address, bill = next(iter(town.addresses.values())), next(iter(town.bills))
    title, jar = next(iter(town.fines)), next(iter(town.jars))
    amount = town.bills[bill]["amount"]
    for _ in range(times):
        tools.buy(town, shop, thing, 2)
        tools.send_parcel(town, address, 5)
        tools.pay_bill(town, bill, amount)
        tools.return_book(town, title)
        tools.empty_into_purse(town, jar, 7)
    spent = 2 * price + tools.POSTAGE + 5 * tools.PER_KILOGRAM + amount + town.fines[title] - 7
    assert tools.count_purse(town) == {"dollars": before.purse - times * spent}
    assert town.purchases == [[shop, thing, 2]] * times
    assert town.parcels == [[address, 5]] * times
    assert town.payments == [[bill, amount]] * times
    assert town.returned == [title] * times
    assert town.jars[jar] == before.jars[jar] - 7 * times
