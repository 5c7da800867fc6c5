"""The shop: what its tools do, and what they refuse."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import ecommerce
from whichloop.datasets.ecommerce import tools
from whichloop.datasets.ecommerce.shop import Row, Shop, ShopDatabase, draw_shop
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import carry_out
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.protocol import Toolbox, ToolCall, run_sync

SHOPS = st.integers(1, 10**9)


@pytest.fixture(scope="module")
def snapshot() -> Suite:
    return ecommerce.load()


@pytest.fixture(scope="module")
def many() -> Suite:
    return ecommerce.load(size=144, seed=7)


@pytest.fixture
def database() -> Iterator[ShopDatabase]:
    with closing(ShopDatabase(draw_shop(1))) as made:
        yield made


def delivered_line(shop: Shop) -> Row:
    return next(row for row in shop.tables["lines"].values() if row["state"] == "delivered" and row["line"] and row["quantity"] > 1)


def state_after(task: Task, suite: Suite) -> Any:
    with closing(suite.open(task)) as environment:
        assert task.plan is not None
        run_sync(carry_out(task, task.plan.calls, Toolbox(environment.tools)))
        return environment.state()


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


@settings(max_examples=10, deadline=None)
@given(number=SHOPS)
def test_reading_changes_nothing_and_says_the_same_again(number: int) -> None:
    shop = draw_shop(number)

    def read(shown: ShopDatabase) -> list[Any]:
        seen: list[Any] = [tools.read_policy(shown, topic) for topic in ("returns", "goodwill", "shipping")]
        seen += [tools.find_customers(shown, row["city"]) for row in shop.tables["customers"].values()]
        seen += [tools.get_order(shown, order_id) for order_id in shop.tables["orders"]]
        return [*seen, *(tools.get_product(shown, sku) for sku in shop.tables["products"])]

    with closing(ShopDatabase(shop)) as database:
        assert read(database) == read(database)
        assert database.changes() == {}


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


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_policy", {"topic": "weather"}),
        ("refund_line", {"order_id": "S1", "line": 1, "quantity": 0, "fee_percent": 0}),
        ("refund_line", {"order_id": "S1", "line": 1, "quantity": 1, "fee_percent": 101}),
        ("give_credit", {"customer_id": "C1", "amount": -1}),
        ("get_order", {"order_id": {"about": 1}}),
        ("get_order", {}),
    ],
)
def test_arguments_are_checked(many: Suite, tool: str, arguments: dict[str, Any]) -> None:
    with closing(many.open(many.tasks[0])) as environment:
        seen = run_sync(Toolbox(environment.tools).call(ToolCall(tool, arguments)))
        assert seen.error_type == "InvalidArguments"
        assert environment.state() == {}


# Environments


def test_a_closed_environment_holds_no_database(many: Suite) -> None:
    environment = many.open(many.tasks[0])
    environment.close()
    with pytest.raises(sqlite3.ProgrammingError):
        environment.state()


# The tasks


def test_nothing_happens_where_the_policy_says_no(many: Suite) -> None:
    refused = [task for task in many.tasks if re.fullmatch(r"[A-Z]{2}-\d{3}", str(task.expected))]
    assert {task.labels["template"] for task in refused} == {"refusal", "goodwill", "price_match"}
    for task in refused:
        assert task.end_state == {}
        assert str(task.expected) not in task.query.text


def test_a_code_or_a_day_counts_whatever_marks_stand_around_it(many: Suite) -> None:
    told = [task for task in many.tasks if isinstance(task.expected, str)]
    assert len(told) > 15
    for task in told:
        for said, right in ((task.expected, 1), (f"**{task.expected}**.", 1), (f"{task.expected}0", 0)):
            assert scorer_named(task.scorer)(Judgement(task, said, "finished")) == right, (task.id, said)


def test_a_refusal_cannot_be_told_from_the_question(many: Suite) -> None:
    """Returns that are taken back and returns that are not are asked for in the same words."""
    words = {"return": set[str](), "refusal": set[str]()}
    for task in many.tasks:
        if task.labels["template"] in words:
            words[task.labels["template"]] |= set(re.findall(r"[a-z]{3,}", task.query.text))
    named = {word for row in draw_shop(1).tables["policy"].values() for word in row["topic"].split("_")}
    assert not named & (words["return"] ^ words["refusal"])


def test_a_task_without_an_answer_still_asks_for_work(many: Suite) -> None:
    """Saying "not determined" is not enough: only those who are nobody's customer leave the shop as it is."""
    idle = [task for task in many.tasks if task.expected is None and not task.end_state]
    assert {task.labels["template"] for task in idle} == {"nobody"}
    assert len(idle) < 0.05 * len(many.tasks)
