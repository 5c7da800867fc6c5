"""Small tables of tau2's retail and airline, rows of tasks, and calls of the tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whichloop.datasets import tau2
from whichloop.datasets.task import Environment, Suite
from whichloop.protocol import Observation, Toolbox, ToolCall, run_sync

HOME = {"address1": "1 Elm St", "address2": "", "city": "Ulm", "state": "BW", "country": "DE", "zip": "89073"}
AWAY = HOME | {"address1": "2 Oak St"}


def lamp(item: str, price: float, available: bool = True) -> dict[str, Any]:
    return {"item_id": item, "options": {"shade": item}, "available": available, "price": price}


def order(number: int, status: str, *items: str, paid_by: str = "card_1") -> dict[str, Any]:
    prices = {"10": 20.0, "11": 25.5, "12": 5.0}
    there = [{"name": "Lamp", "product_id": "1", "item_id": one, "price": prices[one], "options": {"shade": one}} for one in items]
    payment = {"transaction_type": "payment", "amount": sum(prices[one] for one in items), "payment_method_id": paid_by}
    of = {"order_id": f"#{number}", "user_id": "ann", "address": HOME}
    return {**of, "items": there, "status": status, "payment_history": [payment]}


LAMPS = {"10": lamp("10", 20.0), "11": lamp("11", 25.5), "12": lamp("12", 5.0, False)}
SHOP: dict[str, Any] = {
    "products": {
        "1": {"name": "Lamp", "product_id": "1", "variants": LAMPS},
        "2": {"name": "Kettle", "product_id": "2", "variants": {"20": lamp("20", 30.0)}},
    },
    "users": {
        "ann": {
            "user_id": "ann",
            "name": {"first_name": "Ann", "last_name": "Lee"},
            "address": HOME,
            "email": "ann@example.com",
            "payment_methods": {
                "card_1": {"source": "credit_card", "id": "card_1"},
                "gift_1": {"source": "gift_card", "id": "gift_1", "balance": 4.0},
                "gift_2": {"source": "gift_card", "id": "gift_2", "balance": 90.0},
            },
            "orders": ["#1", "#2", "#3"],
        }
    },
    "orders": {
        "#1": order(1, "pending", "10", "10"),
        "#2": order(2, "delivered", "10", "12"),
        "#3": order(3, "pending", "10", paid_by="gift_2"),
    },
}
DAY = "2024-05-20"


def flight(number: str, origin: str, destination: str, leaves: str, arrives: str, **day: Any) -> dict[str, Any]:
    open_day = {"status": "available", "available_seats": {"basic_economy": 9, "economy": 2, "business": 0}}
    open_day |= {"prices": {"basic_economy": 50, "economy": 100, "business": 300}}
    times = {"scheduled_departure_time_est": leaves, "scheduled_arrival_time_est": arrives}
    way = {"flight_number": number, "origin": origin, "destination": destination}
    return {**way, **times, "dates": {DAY: day or open_day, "2024-05-21": open_day}}


BOOKED = {
    **{"reservation_id": "R1", "user_id": "bo", "flight_type": "one_way", "cabin": "economy"},
    **{"origin": "SFO", "destination": "JFK"},
    **{"flights": [{"origin": "SFO", "destination": "JFK", "flight_number": "F1", "date": DAY, "price": 80}]},
    **{"passengers": [{"first_name": "Bo", "last_name": "Ng", "dob": "1990-01-01"}], "insurance": "no", "status": None},
    **{"payment_history": [{"payment_id": "card_9", "amount": 80}], "created_at": "2024-05-01T00:00:00"},
    **{"total_baggages": 2, "nonfree_baggages": 1},
}
AIRLINE: dict[str, Any] = {
    "flights": {
        "F1": flight("F1", "SFO", "JFK", "08:00:00", "16:00:00"),
        "F2": flight("F2", "SFO", "DEN", "20:00:00", "01:00:00+1"),
        "F3": flight("F3", "DEN", "JFK", "02:00:00", "06:00:00"),
        "F4": flight("F4", "SFO", "JFK", "09:00:00", "17:00:00", status="delayed"),
    },
    "users": {
        "bo": {
            "user_id": "bo",
            "payment_methods": {
                "card_9": {"source": "credit_card", "id": "card_9"},
                "gift_9": {"source": "gift_card", "id": "gift_9", "amount": 60},
                "certificate_9": {"source": "certificate", "id": "certificate_9", "amount": 130},
            },
            "reservations": ["R1"],
        }
    },
    "reservations": {"R1": BOOKED},
}
BOOKING: dict[str, Any] = {
    **{"user_id": "bo", "origin": "SFO", "destination": "JFK", "flight_type": "one_way", "cabin": "economy", "insurance": "yes"},
    **{"flights": [{"flight_number": "F1", "date": DAY}], "passengers": BOOKED["passengers"]},
    **{"payment_methods": [{"payment_id": "certificate_9", "amount": 130}, {"payment_id": "card_9", "amount": 50}]},
    **{"total_baggages": 2, "nonfree_baggages": 1},
}
EXCHANGE = {"order_id": "#2", "item_ids": ["10"], "new_item_ids": ["11"], "payment_method_id": "card_1"}


def action(name: str, **arguments: Any) -> dict[str, Any]:
    return {"action_id": name, "name": name, "arguments": arguments}


def row(
    identifier: str, *actions: Any, basis: tuple[str, ...] = ("DB",), known: str | None = "I am Ann.", **more: Any
) -> dict[str, Any]:
    scenario = {"reason_for_call": "My lamp is dull.", "known_info": known, "unknown_info": None}
    scenario |= {"task_instructions": "A brighter one."}
    criteria = {"actions": list(actions), "reward_basis": list(basis)} | more.pop("criteria", {})
    return {"id": identifier, "user_scenario": {"instructions": scenario}, "evaluation_criteria": criteria} | more


def loaded(folder: Path, tables: Any, *rows: Any) -> Suite:
    for name, content in (("db.json", tables), ("tasks.json", rows)):
        (folder / name).write_text(json.dumps(content))
    (folder / "policy.md").write_text("Be kind.\n")
    return tau2.load(data=folder)


def make(environment: Environment, *calls: tuple[str, Mapping[str, Any]]) -> list[Any]:
    seen: tuple[Observation, ...] = run_sync(Toolbox(environment.tools).call_all([ToolCall(*call) for call in calls]))
    return [one.value if one.ok else one.data for one in seen]


def after(suite: Suite, name: str, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """What a call gives, and the records that it changes."""
    trial = suite.open(suite.tasks[0])
    (seen,) = make(trial, (name, arguments))
    changed: dict[str, Any] = trial.state()["changed"]
    return seen, changed


def shop_suite(folder: Path) -> Suite:
    """An exchange, and a talk."""
    look = action("get_order_details", order_id="#2")
    exchange = action("exchange_delivered_order_items", **EXCHANGE)
    return loaded(folder, SHOP, row("t", look, look, exchange), row("talk", action("calculate", expression="1+1")))


def airline_suite(folder: Path) -> Suite:
    """A booking whose price is to be told."""
    booking = action("book_reservation", **BOOKING)
    return loaded(folder, AIRLINE, row("t", booking, basis=("DB", "COMMUNICATE"), criteria={"communicate_info": ["180"]}))
