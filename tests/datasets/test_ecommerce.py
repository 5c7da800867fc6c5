"""The shop: what its tools do, and how often."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import ecommerce
from whichloop.datasets.ecommerce import tools
from whichloop.datasets.ecommerce.shop import Shop, draw_shop

SHOPS = st.integers(1, 10**9).map(draw_shop)


@settings(max_examples=cases(7), deadline=None)
@given(shop=SHOPS, fees=st.lists(st.sampled_from([0, 5, 10, 35, 100]), max_size=6))
def test_no_line_is_paid_back_more_often_than_it_was_bought(shop: Shop, fees: list[int]) -> None:
    for line in [row for row in shop.tables["lines"].values() if row["line"] and row["state"] == "delivered"]:
        stock, paid, back = tools.get_product(shop, line["sku"])["stock"], 0.0, []
        for fee in fees:
            try:
                paid += tools.refund_line(shop, line["order_id"], line["line"], 1, fee)["amount"]
                back.append(fee)
            except tools.Refused:
                assert len(back) == line["quantity"]
        assert len(back) == min(len(fees), line["quantity"])
        assert paid == pytest.approx(sum(line["unit_price"] * (100 - fee) / 10_000 for fee in back))
        assert tools.get_product(shop, line["sku"])["stock"] == stock + back.count(0)


@settings(max_examples=10, deadline=None)
@given(shop=SHOPS)
def test_a_swap_there_and_back_leaves_the_shelf_as_it_was(shop: Shop) -> None:
    for line in [row for row in shop.tables["lines"].values() if row["line"]]:
        old = line["sku"]
        new = shop.siblings(old)[0]["sku"]
        shelf = [tools.get_product(shop, sku)["stock"] for sku in (old, new)]
        try:
            left = tools.exchange_line(shop, line["order_id"], line["line"], new)["left_in_stock"]
        except tools.OutOfStock:
            assert shelf[1] < line["quantity"]
            continue
        assert left == shelf[1] - line["quantity"]
        tools.exchange_line(shop, line["order_id"], line["line"], old)
        assert [tools.get_product(shop, sku)["stock"] for sku in (old, new)] == shelf


@settings(max_examples=cases(12), deadline=None)
@given(text=st.text(min_size=3, max_size=20) | st.sampled_from(["a.", "@post", "' OR 1=1 --", "%%%"]))
def test_a_search_finds_those_in_whom_the_text_stands(text: str) -> None:
    shop = draw_shop(1)
    try:
        found = tools.find_customers(shop, text)
    except tools.Refused:
        assert len(text.strip()) < 3
        return
    wanted = [row for row in shop.tables["customers"].values() if text.strip().lower() in "|".join(row.values()).lower()]
    assert {row["email"] for row in found} == {row["email"] for row in wanted}


def test_a_second_refund_is_refused_and_a_second_credit_is_given() -> None:
    shop = draw_shop(1)
    line = next(row for row in shop.tables["lines"].values() if row["state"] == "delivered" and row["line"] and row["quantity"] > 1)
    tools.refund_line(shop, line["order_id"], line["line"], line["quantity"], 0)
    after = shop.changes()
    with pytest.raises(tools.Refused, match="0 left"):
        tools.refund_line(shop, line["order_id"], line["line"], 1, 0)
    with pytest.raises(tools.Refused, match="two different"):
        tools.combine_orders(shop, line["order_id"], line["order_id"])
    assert shop.changes() == after
    customer = shop.tables["orders"][line["order_id"]]["customer_id"]
    first = tools.give_credit(shop, customer, 5)["credit_balance"]
    assert tools.give_credit(shop, customer, 5)["credit_balance"] == first + 5


def test_nothing_happens_where_the_policy_says_no() -> None:
    refused = [task for task in ecommerce.load(size=144, seed=7).tasks if re.fullmatch(r"[A-Z]{2}-\d{3}", str(task.expected))]
    assert {task.labels["template"] for task in refused} == {"refusal", "goodwill", "price_match"}
    for task in refused:
        assert task.end_state == {}
        assert str(task.expected) not in task.query.text
