"""The town: what is lost or done twice shows in the end, whichever call it is, and calls at once need nothing of each other."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets import errands
from whichloop.datasets.errands import town as tools
from whichloop.datasets.errands.town import Town, draw_town
from whichloop.datasets.task import InvalidRequest, Suite, Task, UnknownName
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


def test_two_to_six_calls_can_be_made_at_once(many: Suite) -> None:
    widths = Counter[int]()
    for task in many.tasks:
        assert task.plan is not None
        done: set[str] = set()
        widest = 0
        while ready := [call.id for call in task.plan.calls if call.id not in done and task.plan.dependencies[call.id] <= done]:
            widest = max(widest, len(ready))
            done.update(ready)
        widths[widest] += 1
    assert set(widths) == {2, 3, 4, 5, 6}


def test_the_purse_is_counted_after_all_that_changes_it(many: Suite) -> None:
    for task in many.tasks:
        assert task.plan is not None
        writes = {call.id for call in task.plan.calls if call.tool not in READS and not call.fails}
        counts = [call for call in task.plan.calls if call.tool == "count_purse"]
        assert len(counts) == (task.expected is not None)
        assert all(set(call.after) == writes for call in counts)


@given(number=st.integers(1, 10**9), times=st.integers(1, 4))
def test_each_write_takes_effect_as_often_as_it_is_called(number: int, times: int) -> None:
    town, before = draw_town(number), draw_town(number)
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
    assert town.purchases == [(shop, thing, 2)] * times
    assert town.parcels == [(address, 5)] * times
    assert town.payments == [(bill, amount)] * times
    assert town.returned == [title] * times
    assert town.jars[jar] == before.jars[jar] - 7 * times


def test_what_is_refused_changes_nothing() -> None:
    town = draw_town(3)
    before = town.state()
    shop, other = list(town.shops)[:2]
    bill = next(iter(town.bills))
    refused: list[tuple[type[Exception], Any, tuple[Any, ...], str]] = [
        (tools.SoldOut, tools.buy, (shop, next(iter(town.shops[other])), 2), "any more"),
        (UnknownName, tools.buy, ("the moon", "cheese", 1), "no shop called 'the moon'"),
        (tools.SoldOut, tools.check_price, (shop, "cheese"), "no cheese"),
        (UnknownName, tools.find_address, ("Nobody",), "'Nobody'"),
        (UnknownName, tools.send_parcel, ("1 Nowhere", 2), "no house"),
        (UnknownName, tools.look_up_bill, ("B0",), "no bill B0"),
        (UnknownName, tools.pay_bill, ("B0", 1), "no bill B0"),
        (InvalidRequest, tools.pay_bill, (bill, 9_999), "does not come to 9999 dollars"),
        (UnknownName, tools.return_book, ("Nothing",), "'Nothing'"),
        (UnknownName, tools.empty_into_purse, ("the lost jar", 1), "the lost jar"),
    ]
    for kind, tool, arguments, message in refused:
        with pytest.raises(kind, match=message):
            tool(town, *arguments)
    assert town.state() == before == Town.state(draw_town(3))
