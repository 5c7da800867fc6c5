"""The rules of tau2's retail and airline, and their sums."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.tau2_shops import AWAY, BOOKING, DAY, EXCHANGE, SHOP, after, airline_suite, lamp, make, shop_suite
from whichloop.datasets.task import Suite
from whichloop.datasets.tau2.domain import RefusedCall, calculated


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return shop_suite(tmp_path_factory.mktemp("retail"))


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return airline_suite(tmp_path_factory.mktemp("airline"))


# The tools' rules


ITEMS = {"order_id": "#1", "item_ids": ["10"], "new_item_ids": ["11"], "payment_method_id": "gift_2"}
RETURN = {"order_id": "#2", "item_ids": ["12", "10"], "payment_method_id": "gift_1"}
PAID = {"transaction_type": "payment", "amount": 5.5, "payment_method_id": "gift_2"}
PERSON = [{"first_name": "Cy", "last_name": "Ng", "dob": "1991-01-01"}]
R1: dict[str, Any] = {"reservation_id": "R1"}
MOVE = R1 | {"cabin": "economy", "flights": [{"flight_number": "F1", "date": "2024-05-21"}], "payment_id": "gift_9"}
BAGS = R1 | {"total_baggages": 3, "nonfree_baggages": 1, "payment_id": "card_9"}


@pytest.mark.parametrize(
    ("name", "arguments", "given", "gift"),
    [
        ("cancel_pending_order", {"order_id": "#3", "reason": "no longer needed"}, {"status": "cancelled"}, 110.0),
        ("modify_pending_order_items", ITEMS, {"status": "pending (item modified)"}, 84.5),
        ("modify_pending_order_address", {"order_id": "#1", **AWAY}, {"address": AWAY}, None),
        ("modify_user_address", {"user_id": "ann", **AWAY}, SHOP["users"]["ann"] | {"address": AWAY}, 90.0),
        ("modify_pending_order_payment", {"order_id": "#3", "payment_method_id": "card_1"}, {"status": "pending"}, 110.0),
        ("return_delivered_order_items", RETURN, {"status": "return requested", "return_items": ["10", "12"]}, None),
    ],
)
def test_what_the_shop_s_tools_change(shop: Suite, name: str, arguments: Any, given: Any, gift: float | None) -> None:
    seen, changed = after(shop, name, **arguments)
    assert {field: seen[field] for field in given} == given
    users = changed.get("users", {})
    assert [user["payment_methods"]["gift_2"]["balance"] for user in users.values()] == ([] if gift is None else [gift])


def test_payments_and_refunds_stand_in_the_order(shop: Suite) -> None:
    """Each item of a pending order gets its own price."""
    seen, _ = after(shop, "modify_pending_order_items", **ITEMS)
    assert sorted((item["item_id"], item["price"]) for item in seen["items"]) == [("10", 20.0), ("11", 25.5)]
    assert seen["payment_history"][-1] == PAID
    seen, _ = after(shop, "modify_pending_order_payment", order_id="#3", payment_method_id="card_1")
    assert [one["transaction_type"] for one in seen["payment_history"]] == ["payment", "payment", "refund"]


def test_looking_up_in_the_shop(shop: Suite) -> None:
    looked = make(
        shop.open(shop.tasks[0]),
        ("find_user_id_by_email", {"email": "ANN@example.com"}),
        ("find_user_id_by_name_zip", {"first_name": "ann", "last_name": "LEE", "zip": "89073"}),
        ("list_all_product_types", {}),
        ("get_item_details", {"item_id": "20"}),
        ("transfer_to_human_agents", {"summary": "s"}),
    )
    assert looked == ["ann", "ann", {"Kettle": "2", "Lamp": "1"}, lamp("20", 30.0), "Transfer successful"]


def test_a_booking_takes_seats_and_is_paid(airline: Suite) -> None:
    seen, changed = after(airline, "book_reservation", **BOOKING)
    assert (seen["reservation_id"], seen["flights"][0]["price"]) == ("HATHAT", 100)
    assert changed["flights"]["F1"]["dates"][DAY]["available_seats"]["economy"] == 1
    assert "certificate_9" not in changed["users"]["bo"]["payment_methods"]
    assert changed["users"]["bo"]["reservations"] == ["R1", "HATHAT"]


@pytest.mark.parametrize(
    ("name", "arguments", "field", "given"),
    [
        ("cancel_reservation", R1, "payment_history", [80, -80]),
        ("update_reservation_flights", MOVE, "payment_history", [80, 20]),
        ("update_reservation_baggages", BAGS, "payment_history", [80, 50]),
        ("update_reservation_passengers", R1 | {"passengers": PERSON}, "passengers", PERSON),
    ],
)
def test_changes_of_a_reservation(airline: Suite, name: str, arguments: Any, field: str, given: Any) -> None:
    seen, changed = after(airline, name, **arguments)
    assert [one.get("amount", one) for one in seen[field]] == given
    assert changed["reservations"] == {"R1": seen}
    gifts = [user["payment_methods"]["gift_9"]["amount"] for user in changed.get("users", {}).values()]
    assert gifts == ([40] if arguments is MOVE else [])


def test_a_certificate_is_sent_and_a_flight_that_stays_costs_nothing(airline: Suite) -> None:
    _, changed = after(airline, "send_certificate", user_id="bo", amount=100)
    assert "certificate_3221322" in changed["users"]["bo"]["payment_methods"]
    stays = MOVE | {"flights": [{"flight_number": "F1", "date": DAY}], "payment_id": "card_9"}
    assert after(airline, "update_reservation_flights", **stays)[1] == {}


def test_flights_are_found_over_midnight(airline: Suite) -> None:
    trip = {"origin": "SFO", "destination": "JFK", "date": DAY}
    direct, pairs, status, airports = make(
        airline.open(airline.tasks[0]),
        ("search_direct_flight", trip),
        ("search_onestop_flight", trip),
        ("get_flight_status", {"flight_number": "F4", "date": DAY}),
        ("list_all_airports", {}),
    )
    assert [one["flight_number"] for one in direct] == ["F1"]
    assert [[(one["flight_number"], one["date"]) for one in pair] for pair in pairs] == [[("F2", DAY), ("F3", "2024-05-21")]]
    assert status == "delayed"
    assert {"iata": "SFO", "city": "San Francisco"} in airports


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("cancel_pending_order", {"order_id": "#2", "reason": "no longer needed"}, "is not pending, but delivered"),
        ("cancel_pending_order", {"order_id": "#1", "reason": "because"}, "reason"),
        ("modify_pending_order_items", ITEMS | {"new_item_ids": ["10"]}, "A new item is the old one"),
        ("modify_pending_order_items", ITEMS | {"payment_method_id": "gift_1"}, "balance of gift_1 is too low"),
        ("modify_pending_order_payment", {"order_id": "#3", "payment_method_id": "gift_2"}, "has been paid by this"),
        ("modify_pending_order_address", {"order_id": "#2", **AWAY}, "is not pending"),
        ("exchange_delivered_order_items", EXCHANGE | {"order_id": "#1"}, "is not delivered"),
        ("exchange_delivered_order_items", EXCHANGE | {"item_ids": ["10", "10"]}, "holds item 10 1 times"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["11", "11"]}, "not a new item for each"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["12"]}, "not available"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["20"]}, "no variant of the product"),
        ("exchange_delivered_order_items", EXCHANGE | {"payment_method_id": "card_7"}, "no payment method 'card_7'"),
        ("return_delivered_order_items", {"order_id": "#1", "item_ids": ["10"], "payment_method_id": "card_1"}, "is not delivered"),
        ("find_user_id_by_email", {"email": "x@example.com"}, "No customer has"),
        ("get_order_details", {"order_id": "2"}, "There is no order '2'"),
        ("get_item_details", {"item_id": "1"}, "There is no item '1'"),
        ("book_reservation", BOOKING | {"total_baggages": 3, "nonfree_baggages": 2}, "The price is 230, and 180 is paid"),
        ("book_reservation", BOOKING | {"cabin": "business"}, "has 0 seats in business"),
        ("book_reservation", BOOKING | {"flights": [{"flight_number": "F4", "date": DAY}]}, "is not available, but delayed"),
        ("book_reservation", BOOKING | {"flights": [{"flight_number": "F1", "date": "2025-01-01"}]}, "does not fly on"),
        ("book_reservation", BOOKING | {"payment_methods": [{"payment_id": "gift_9", "amount": 180}]}, "gift_9 is too low"),
        ("update_reservation_baggages", BAGS | {"payment_id": "certificate_9"}, "certificate cannot pay"),
        ("update_reservation_passengers", {"reservation_id": "R1", "passengers": []}, "number of passengers"),
        ("cancel_reservation", {"reservation_id": "R9"}, "There is no reservation 'R9'"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(shop: Suite, airline: Suite, name: str, arguments: dict[str, Any], error: str) -> None:
    in_shop = name in {tool.name for tool in shop.open(shop.tasks[0]).tools}
    seen, changed = after(shop if in_shop else airline, name, **arguments)
    assert error in str(seen)
    assert changed == {}


# Arithmetic

SUMS = st.recursive(
    st.integers(0, 999).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    max_leaves=6,
)


@given(SUMS)
def test_sums_are_what_arithmetic_says(text: str) -> None:
    value = eval(re.sub(r"\d+", r"Fraction(\g<0>)", text), {"Fraction": Fraction})
    try:
        assert calculated(text) == str(round(float(value), 2))
    except RefusedCall:
        assert len(text) > 200 or "*" in text  # too long, or too large on the way
