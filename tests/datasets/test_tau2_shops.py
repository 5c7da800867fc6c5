"""The rules of tau2's retail and airline, and their sums."""

from __future__ import annotations

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


def test_a_pending_order_is_cancelled_and_its_gift_card_refunded(shop: Suite) -> None:
    seen, changed = after(shop, "cancel_pending_order", order_id="#3", reason="no longer needed")
    assert (seen["status"], seen["payment_history"][-1]["transaction_type"]) == ("cancelled", "refund")
    assert changed["users"]["ann"]["payment_methods"]["gift_2"]["balance"] == 110.0


def test_each_item_of_a_pending_order_gets_its_own_price(shop: Suite) -> None:
    seen, _ = after(
        shop, "modify_pending_order_items", order_id="#1", item_ids=["10"], new_item_ids=["11"], payment_method_id="gift_2"
    )
    assert sorted((item["item_id"], item["price"]) for item in seen["items"]) == [("10", 20.0), ("11", 25.5)]
    assert seen["payment_history"][-1] == {"transaction_type": "payment", "amount": 5.5, "payment_method_id": "gift_2"}
    assert seen["status"] == "pending (item modified)"


def test_addresses_payments_and_returns(shop: Suite) -> None:
    assert after(shop, "modify_pending_order_address", order_id="#1", **AWAY)[0]["address"] == AWAY
    assert after(shop, "modify_user_address", user_id="ann", **AWAY)[1] == {
        "users": {"ann": SHOP["users"]["ann"] | {"address": AWAY}}
    }
    seen, changed = after(shop, "modify_pending_order_payment", order_id="#3", payment_method_id="card_1")
    assert [one["transaction_type"] for one in seen["payment_history"]] == ["payment", "payment", "refund"]
    assert changed["users"]["ann"]["payment_methods"]["gift_2"]["balance"] == 110.0
    seen, _ = after(shop, "return_delivered_order_items", order_id="#2", item_ids=["12", "10"], payment_method_id="gift_1")
    assert (seen["status"], seen["return_items"]) == ("return requested", ["10", "12"])


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


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("cancel_pending_order", {"order_id": "#2", "reason": "no longer needed"}, "is not pending, but delivered"),
        ("cancel_pending_order", {"order_id": "#1", "reason": "because"}, "reason"),
        ("modify_pending_order_items", EXCHANGE, "is not pending"),
        ("modify_pending_order_items", EXCHANGE | {"order_id": "#1", "new_item_ids": ["10"]}, "A new item is the old one"),
        (
            "modify_pending_order_items",
            EXCHANGE | {"order_id": "#1", "payment_method_id": "gift_1"},
            "balance of gift_1 is too low",
        ),
        ("modify_pending_order_payment", {"order_id": "#3", "payment_method_id": "gift_2"}, "has been paid by this"),
        ("modify_pending_order_payment", {"order_id": "#1", "payment_method_id": "gift_1"}, "balance of gift_1 is too low"),
        ("modify_pending_order_address", {"order_id": "#2", **AWAY}, "is not pending"),
        ("exchange_delivered_order_items", EXCHANGE | {"order_id": "#1"}, "is not delivered"),
        (
            "exchange_delivered_order_items",
            EXCHANGE | {"item_ids": ["10", "10"], "new_item_ids": ["11", "11"]},
            "holds item 10 1 times",
        ),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["11", "11"]}, "not a new item for each"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["12"]}, "not available"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["20"]}, "no variant of the product"),
        ("exchange_delivered_order_items", EXCHANGE | {"payment_method_id": "card_7"}, "no payment method 'card_7'"),
        ("return_delivered_order_items", {"order_id": "#1", "item_ids": ["10"], "payment_method_id": "card_1"}, "is not delivered"),
        ("find_user_id_by_email", {"email": "x@example.com"}, "No customer has"),
        ("get_order_details", {"order_id": "2"}, "There is no order '2'"),
        ("get_item_details", {"item_id": "1"}, "There is no item '1'"),
    ],
)
def test_what_the_shop_refuses_changes_nothing(shop: Suite, name: str, arguments: dict[str, Any], error: str) -> None:
    seen, changed = after(shop, name, **arguments)
    assert error in seen
    assert changed == {}


def test_a_booking_takes_seats_and_is_paid(airline: Suite) -> None:
    seen, changed = after(airline, "book_reservation", **BOOKING)
    assert (seen["reservation_id"], seen["flights"][0]["price"]) == ("HATHAT", 100)
    assert changed["flights"]["F1"]["dates"][DAY]["available_seats"]["economy"] == 1
    assert "certificate_9" not in changed["users"]["bo"]["payment_methods"]
    assert changed["users"]["bo"]["reservations"] == ["R1", "HATHAT"]


def test_changes_of_a_reservation(airline: Suite) -> None:
    seen, _ = after(airline, "cancel_reservation", reservation_id="R1")
    assert (seen["status"], [one["amount"] for one in seen["payment_history"]]) == ("cancelled", [80, -80])
    flights = [{"flight_number": "F1", "date": "2024-05-21"}]
    seen, changed = after(
        airline, "update_reservation_flights", reservation_id="R1", cabin="economy", flights=flights, payment_id="gift_9"
    )
    assert (seen["payment_history"][-1], seen["flights"][0]["price"]) == ({"payment_id": "gift_9", "amount": 20}, 100)
    assert changed["users"]["bo"]["payment_methods"]["gift_9"]["amount"] == 40
    stays = [{"flight_number": "F1", "date": DAY}]
    assert (
        after(airline, "update_reservation_flights", reservation_id="R1", cabin="economy", flights=stays, payment_id="card_9")[1]
        == {}
    )
    bags = {"reservation_id": "R1", "total_baggages": 3, "nonfree_baggages": 1, "payment_id": "card_9"}
    assert after(airline, "update_reservation_baggages", **bags)[0]["payment_history"][-1] == {"payment_id": "card_9", "amount": 50}
    other = [{"first_name": "Cy", "last_name": "Ng", "dob": "1991-01-01"}]
    assert after(airline, "update_reservation_passengers", reservation_id="R1", passengers=other)[0]["passengers"] == other
    assert (
        "certificate_3221322" in after(airline, "send_certificate", user_id="bo", amount=100)[1]["users"]["bo"]["payment_methods"]
    )


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
        ("book_reservation", BOOKING | {"total_baggages": 3, "nonfree_baggages": 2}, "The price is 230, and 180 is paid"),
        ("book_reservation", BOOKING | {"cabin": "business"}, "has 0 seats in business"),
        ("book_reservation", BOOKING | {"flights": [{"flight_number": "F4", "date": DAY}]}, "is not available, but delayed"),
        ("book_reservation", BOOKING | {"flights": [{"flight_number": "F1", "date": "2025-01-01"}]}, "does not fly on"),
        (
            "book_reservation",
            BOOKING | {"payment_methods": [{"payment_id": "gift_9", "amount": 180}]},
            "balance of gift_9 is too low",
        ),
        (
            "update_reservation_baggages",
            {"reservation_id": "R1", "total_baggages": 3, "nonfree_baggages": 3, "payment_id": "certificate_9"},
            "certificate cannot pay",
        ),
        ("update_reservation_passengers", {"reservation_id": "R1", "passengers": []}, "number of passengers"),
        ("cancel_reservation", {"reservation_id": "R9"}, "There is no reservation 'R9'"),
    ],
)
def test_what_the_airline_refuses_changes_nothing(airline: Suite, name: str, arguments: dict[str, Any], error: str) -> None:
    seen, changed = after(airline, name, **arguments)
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
    value = Fraction(0)
    stack: list[Any] = []
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == ")":
            left, between, right = stack[-3:]
            stack[-4:] = [{"+": left + right, "-": left - right, "*": left * right}[between]]
        else:
            stack.append(Fraction(token) if token.isdigit() else token)
    (value,) = stack
    try:
        assert calculated(text) == str(round(float(value), 2))
    except RefusedCall:
        assert len(text) > 200 or "*" in text  # too long, or too large on the way
