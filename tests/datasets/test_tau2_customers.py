"""tau2's retail and airline: a customer who answers by a script, and tools over tables that all trials share."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.datasets import tau2
from loopbench.datasets.scripted_user import NOTHING_TO_SAY, Change, ScriptedUser
from loopbench.datasets.task import Environment, Suite, Task
from loopbench.datasets.tau2.arithmetic import calculated
from loopbench.datasets.tau2.domain import NotFound, RefusedCall
from loopbench.datasets.tau2.records import Records
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.scorers import scores_of
from loopbench.protocol import Observation, Toolbox, ToolCall, run_sync

HOME = {"address1": "1 Elm St", "address2": "", "city": "Ulm", "state": "BW", "country": "DE", "zip": "89073"}
AWAY = HOME | {"address1": "2 Oak St"}


def lamp(item: str, price: float, available: bool = True) -> dict[str, Any]:
    return {"item_id": item, "options": {"shade": item}, "available": available, "price": price}


def order(number: int, status: str, *items: str, paid_by: str = "card_1") -> dict[str, Any]:
    prices = {"10": 20.0, "11": 25.5, "12": 5.0}
    there = [{"name": "Lamp", "product_id": "1", "item_id": one, "price": prices[one], "options": {"shade": one}} for one in items]
    payment = {"transaction_type": "payment", "amount": sum(prices[one] for one in items), "payment_method_id": paid_by}
    return {
        "order_id": f"#{number}",
        "user_id": "ann",
        "address": HOME,
        "items": there,
        "status": status,
        "payment_history": [payment],
    }


SHOP: dict[str, Any] = {
    "products": {
        "1": {
            "name": "Lamp",
            "product_id": "1",
            "variants": {"10": lamp("10", 20.0), "11": lamp("11", 25.5), "12": lamp("12", 5.0, False)},
        },
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
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": leaves,
        "scheduled_arrival_time_est": arrives,
        "dates": {DAY: day or open_day, "2024-05-21": open_day},
    }


BOOKED = {
    **{
        "reservation_id": "R1",
        "user_id": "bo",
        "origin": "SFO",
        "destination": "JFK",
        "flight_type": "one_way",
        "cabin": "economy",
    },
    **{"flights": [{"origin": "SFO", "destination": "JFK", "flight_number": "F1", "date": DAY, "price": 80}]},
    **{"passengers": [{"first_name": "Bo", "last_name": "Ng", "dob": "1990-01-01"}], "insurance": "no", "status": None},
    **{"payment_history": [{"payment_id": "card_9", "amount": 80}], "created_at": "2024-05-01T00:00:00"},
    **{"total_baggages": 1, "nonfree_baggages": 0},
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
    scenario = {
        "reason_for_call": "My lamp is dull.",
        "known_info": known,
        "unknown_info": None,
        "task_instructions": "A brighter one.",
    }
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    look = action("get_order_details", order_id="#2")
    rows = [
        row("t", look, look, action("exchange_delivered_order_items", **EXCHANGE)),
        row("talk", action("calculate", expression="1+1")),
    ]
    return loaded(tmp_path_factory.mktemp("retail"), SHOP, *rows)


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    rows = [row("t", action("book_reservation", **BOOKING), basis=("DB", "COMMUNICATE"), criteria={"communicate_info": ["180"]})]
    return loaded(tmp_path_factory.mktemp("airline"), AIRLINE, *rows)


def after(suite: Suite, name: str, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """What a call gives, and the records that it changes."""
    trial = suite.open(suite.tasks[0])
    (seen,) = make(trial, (name, arguments))
    changed: dict[str, Any] = trial.state()["changed"]
    return seen, changed


# The customer


def test_a_scenario_becomes_a_user_who_answers(shop: Suite) -> None:
    task = shop.tasks[0]
    assert task.query.text.startswith("My lamp is dull.\n\n")
    assert task.query.context == "Be kind."
    said = make(
        shop.open(task),
        ("ask_user", {"about": "identity", "question": "Who?"}),
        ("ask_user", {"about": "wishes", "question": "What?"}),
        ("confirm_with_user", {"action": "exchange_delivered_order_items", "arguments": EXCHANGE}),
        ("confirm_with_user", {"action": "exchange_delivered_order_items", "arguments": EXCHANGE | {"new_item_ids": ["10"]}}),
        ("confirm_with_user", {"action": "return_delivered_order_items", "arguments": EXCHANGE}),
    )
    assert said == ["I am Ann.", "A brighter one.", True, False, False]


def test_a_plan_asks_first_looks_up_once_and_has_each_change_agreed_to(shop: Suite) -> None:
    plan = shop.tasks[0].plan
    assert plan is not None
    assert [(call.id, call.tool) for call in plan.calls] == [
        ("ask_identity", "ask_user"),
        ("ask_wishes", "ask_user"),
        ("c1", "get_order_details"),
        ("yes2", "confirm_with_user"),
        ("c2", "exchange_delivered_order_items"),
    ]
    assert plan.dependencies["c1"] == {"ask_identity", "ask_wishes"}
    assert plan.dependencies["c2"] == {"yes2"}


def solved(suite: Suite, task: Task, answer: str) -> float:
    assert task.plan is not None
    trial = suite.open(task)
    make(trial, *((call.tool, call.arguments) for call in task.plan.calls))
    return scores_of(Judgement(task, answer, "finished", trial.state()))["accuracy"]


def test_the_plans_solve_their_tasks(shop: Suite, airline: Suite) -> None:
    assert [solved(shop, task, "Done.") for task in shop.tasks] == [1, 1]
    assert solved(airline, airline.tasks[0], "It costs $180.") == 1
    assert solved(airline, airline.tasks[0], "It costs $179.") == 0
    idle = shop.open(shop.tasks[0])
    assert scores_of(Judgement(shop.tasks[0], "Done.", "finished", idle.state()))["accuracy"] == 0


NAMES = st.sampled_from(["a", "b"])
WORTH = st.integers(0, 3)


@given(st.lists(st.tuples(WORTH, WORTH), max_size=5), st.data())
def test_lists_side_by_side_are_pairs_in_any_order(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    def change(rows: list[tuple[int, int]]) -> Change:
        return Change("swap", {"order": 1, "old": [old for old, _ in rows], "new": [new for _, new in rows]})

    shuffled = data.draw(st.permutations(pairs))
    assert change(pairs).is_same_as(change(shuffled))
    other = data.draw(st.lists(st.tuples(WORTH, WORTH), max_size=5))
    assert change(pairs).is_same_as(change(other)) == (sorted(pairs) == sorted(other))


@given(st.dictionaries(NAMES, WORTH | st.lists(WORTH, max_size=2)), st.dictionaries(NAMES, WORTH | st.lists(WORTH, max_size=2)))
def test_being_the_same_change_is_mutual(one: dict[str, Any], two: dict[str, Any]) -> None:
    a, b = Change("swap", one), Change("swap", two)
    assert a.is_same_as(a)
    assert a.is_same_as(b) == b.is_same_as(a)
    assert not a.is_same_as(Change("other", one))


def test_a_user_without_a_script_says_so_and_agrees_to_nothing() -> None:
    user = ScriptedUser({})
    assert user.answer("wishes") == NOTHING_TO_SAY
    assert not user.agrees(Change("cancel", {}))


# Tables that trials share


@given(st.lists(st.tuples(st.sampled_from(["get", "edit", "add"]), st.sampled_from("abc"), st.integers(0, 2)), max_size=8))
def test_changes_are_the_difference_to_the_shared_tables(steps: list[tuple[str, str, int]]) -> None:
    shared = {"things": {"a": {"n": 0}, "b": {"n": 1}}, "others": {}}
    before, records, model = copy.deepcopy(shared), Records(shared), copy.deepcopy(shared["things"])
    for step, key, value in steps:
        if step == "add":
            records.add("things", key, {"n": value})
            model[key] = {"n": value}
        elif key not in model:
            with pytest.raises(NotFound):
                records.get("things", key)
        elif step == "edit":
            records.edit("things", key)["n"] = model[key]["n"] = value
        else:
            assert records.get("things", key) == model[key]
    changed = {key: record for key, record in sorted(model.items()) if record != before["things"].get(key)}
    assert records.changes() == ({"things": changed} if changed else {})
    assert sorted(record["n"] for record in records.each("things")) == sorted(record["n"] for record in model.values())
    assert shared == before


def test_trials_do_not_see_each_other_and_results_are_no_door_into_the_tables(shop: Suite) -> None:
    one, other = (shop.open(shop.tasks[0]) for _ in range(2))
    (seen,) = make(one, ("get_order_details", {"order_id": "#2"}))
    seen["items"].clear()
    make(one, ("exchange_delivered_order_items", EXCHANGE))
    assert other.state() == {"changed": {}}
    (again,) = make(other, ("get_order_details", {"order_id": "#2"}))
    assert len(again["items"]) == 2
    assert one.state() == shop.tasks[0].end_state


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


@given(st.text(alphabet="0123456789+-*/(). ", max_size=30) | st.text(max_size=10))
def test_any_text_is_calculated_or_refused(text: str) -> None:
    with contextlib.suppress(RefusedCall):
        assert round(float(calculated(text)), 2) == float(calculated(text))


@pytest.mark.parametrize("text", ["1/0", "9**9", "(" * 300, "1 2", "", "abs(1)", "1//2", "9" * 20])
def test_what_is_no_sum_is_refused(text: str) -> None:
    with pytest.raises(RefusedCall):
        calculated(text)


# Bad input


@pytest.mark.parametrize(
    ("given_row", "reason"),
    [
        (row("t", initial_state={"message_history": [{}]}), "it continues a conversation"),
        (row("t", initial_state={"initialization_data": {"agent_data": {}}}), "it starts from a state of its own"),
        (row("t", action("calculate", expression="1") | {"requestor": "user"}), "its user has tools"),
        (row("t", basis=("NL_ASSERTION",)), "nothing without a judge"),
        (row("t", action("calculate", expression="1"), basis=("ACTION",)), "its criteria ask for ACTION"),
        (row("t", action("get_order_details", number="#2")), "get_order_details"),
    ],
)
def test_what_cannot_be_run_is_quarantined_with_the_reason(tmp_path: Path, given_row: Any, reason: str) -> None:
    (task,) = loaded(tmp_path, SHOP, given_row).tasks
    assert reason in task.quarantined


def test_a_task_in_which_nothing_is_to_be_done_has_no_plan(tmp_path: Path) -> None:
    (task,) = loaded(tmp_path, SHOP, row("t")).tasks
    assert (task.no_plan, task.quarantined, task.end_state) == ("it lists no actions", "", {"changed": {}})


@pytest.mark.parametrize(
    ("tables", "given_row", "message"),
    [
        (SHOP, row("t", action("fly")), r"tasks\.json: task 't' names 'fly', which the domain 'retail' lacks; it has find_user"),
        (
            SHOP,
            row("t") | {"user_scenario": {"instructions": "Ann"}},
            r"tasks\.json, task 't': field 'user_scenario\.instructions'",
        ),
        (SHOP | {"users": {"ann": {}}}, row("t"), r"db\.json: field 'users\.ann\.user_id'"),
        (AIRLINE | {"flights": []}, row("t"), r"db\.json: field 'flights'"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path, tables: Any, given_row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loaded(tmp_path, tables, given_row)


def test_a_split_without_tasks_is_refused(tmp_path: Path) -> None:
    loaded(tmp_path, SHOP, row("t"))
    (tmp_path / "split_tasks.json").write_text(json.dumps({"test": ["t"], "none": []}))
    assert tau2.load(data=tmp_path, split="test").tasks[0].labels["split"] == "test"
    with pytest.raises(ValueError, match="no task of split 'none'"):
        tau2.load(data=tmp_path, split="none")
