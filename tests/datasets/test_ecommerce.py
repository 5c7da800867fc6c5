"""The shop: what its tools do, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import ecommerce
from whichloop.datasets.ecommerce import tools
from whichloop.datasets.ecommerce.shop import Row, Shop, ShopDatabase, draw_shop
from whichloop.datasets.task import Suite
from whichloop.datasets.validity import carry_out
from whichloop.protocol import Toolbox, ToolCall, run_sync

SHOPS = st.integers(1, 10**9)


@pytest.fixture(scope="module")
def many() -> Suite:
    return ecommerce.load(size=144, seed=7)


@pytest.fixture
def database() -> Iterator[ShopDatabase]:
    with closing(ShopDatabase(draw_shop(1))) as made:
        yield made


def delivered_line(shop: Shop) -> Row:
    return next(row for row in shop.tables["lines"].values() if row["state"] == "delivered" and row["line"] and row["quantity"] > 1)


# The tools' laws


@settings(max_examples=cases(7), deadline=None)
@given(number=SHOPS, fees=st.lists(st.sampled_from([0, 5, 10, 35, 100]), max_size=6))
def test_no_line_is_paid_back_more_often_than_it_was_bought(number: int, fees: list[int]) -> None:
    shop = draw_shop(number)
    with closing(ShopDatabase(shop)) as database:
        for line in (row for row in shop.tables["lines"].values() if row["line"] and row["state"] == "delivered"):
            stock, paid, back = tools.get_product(database, line["sku"])["stock"], 0.0, []
            for fee in fees:
                try:
                    paid += tools.refund_line(database, line["order_id"], line["line"], 1, fee)["amount"]
                    back.append(fee)
                except tools.Refused:
                    assert len(back) == line["quantity"]
            assert len(back) == min(len(fees), line["quantity"])
            assert paid == pytest.approx(sum(line["unit_price"] * (100 - fee) / 10_000 for fee in back))
            assert tools.get_product(database, line["sku"])["stock"] == stock + back.count(0)


@settings(max_examples=10, deadline=None)
@given(number=SHOPS)
def test_a_swap_there_and_back_leaves_the_shelf_as_it_was(number: int) -> None:
    shop = draw_shop(number)
    with closing(ShopDatabase(shop)) as database:
        for line in [row for row in shop.tables["lines"].values() if row["line"]]:
            old = line["sku"]
            new = shop.siblings(old)[0]["sku"]
            shelf = [tools.get_product(database, sku)["stock"] for sku in (old, new)]
            try:
                left = tools.exchange_line(database, line["order_id"], line["line"], new)["left_in_stock"]
            except tools.OutOfStock:
                assert shelf[1] < line["quantity"]
                continue
            assert left == shelf[1] - line["quantity"]
            tools.exchange_line(database, line["order_id"], line["line"], old)
            assert [tools.get_product(database, sku)["stock"] for sku in (old, new)] == shelf


@settings(max_examples=cases(12), deadline=None)
@given(text=st.text(min_size=3, max_size=20))
def test_a_search_is_text_and_never_sql(text: str) -> None:
    shop = draw_shop(1)
    with closing(ShopDatabase(shop)) as database:
        try:
            found = tools.find_customers(database, text)
        except tools.Refused:
            assert len(text.strip()) < 3
            return
        assert all(text.strip().lower() in "|".join(map(str, row.values())).lower() for row in found)
        assert tools.find_customers(database, "' OR 1=1 --") == []
        assert tools.find_customers(database, "%%%") == []


# What repeats a write


def test_a_second_refund_is_refused_and_a_second_credit_is_given(database: ShopDatabase) -> None:
    line = delivered_line(draw_shop(1))
    tools.refund_line(database, line["order_id"], line["line"], line["quantity"], 0)
    after = database.changes()
    with pytest.raises(tools.Refused, match="0 left"):
        tools.refund_line(database, line["order_id"], line["line"], 1, 0)
    assert database.changes() == after
    customer = str(database.value("SELECT customer_id FROM orders WHERE order_id = ?", line["order_id"]))
    first = tools.give_credit(database, customer, 5)["credit_balance"]
    assert tools.give_credit(database, customer, 5)["credit_balance"] == first + 5


def test_what_is_done_twice_makes_the_end_state_wrong(many: Suite) -> None:
    for task in many.tasks:
        assert task.plan is not None
        if task.labels["template"] != "goodwill" or not task.end_state:
            continue
        with closing(many.open(task)) as environment:
            done = run_sync(carry_out(task, task.plan.calls, Toolbox(environment.tools)))
            assert environment.state() == task.end_state
            run_sync(Toolbox(environment.tools).call(ToolCall(done[-1].tool, done[-1].arguments)))
            assert environment.state() != task.end_state


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda shop: tools.get_order(shop, "S1"), tools.NoSuchRecord, "no order S1"),
        (lambda shop: tools.get_product(shop, "X"), tools.NoSuchRecord, "no product X"),
        (lambda shop: tools.give_credit(shop, "C1", 5), tools.NoSuchRecord, "no customer C1"),
        (lambda shop: tools.find_customers(shop, " a "), tools.Refused, "at least 3 characters"),
        (lambda shop: tools.combine_orders(shop, *[next(iter(draw_shop(1).tables["orders"]))] * 2), tools.Refused, "two different"),
    ],
)
def test_errors_say_what_is_wrong(
    database: ShopDatabase, call: Callable[[ShopDatabase], object], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        call(database)
    assert database.changes() == {}


# Environments


# The tasks


def test_nothing_happens_where_the_policy_says_no(many: Suite) -> None:
    refused = [task for task in many.tasks if re.fullmatch(r"[A-Z]{2}-\d{3}", str(task.expected))]
    assert {task.labels["template"] for task in refused} == {"refusal", "goodwill", "price_match"}
    for task in refused:
        assert task.end_state == {}
        assert str(task.expected) not in task.query.text
