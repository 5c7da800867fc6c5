"""tau2's retail and airline: a customer who answers by a script, rules and sums, and tools over tables that all trials share."""

from __future__ import annotations

import copy
import re
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets import test_tau2, test_tau2_telecom
from tests.datasets.tau2_shops import AWAY, BOOKING, DAY, EXCHANGE, SHOP, after, airline_suite, make, shop_suite
from tests.datasets.test_tau2 import accuracy, planned
from whichloop.datasets import tau2
from whichloop.datasets.task import Suite
from whichloop.datasets.tau2 import retail
from whichloop.datasets.tau2.customer import first_person
from whichloop.datasets.tau2.domain import NotFound, RefusedCall, TrialTables, calculated
from whichloop.datasets.with_user import ProposedCall


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return shop_suite(tmp_path_factory.mktemp("retail"))


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return airline_suite(tmp_path_factory.mktemp("airline"))


VERBS = {"cancel", "modify", "return", "exchange", "book", "update", "send"}


def test_a_scenario_becomes_a_user_who_answers(shop: Suite) -> None:
    task, tool = shop.tasks[0], "exchange_delivered_order_items"
    assert task.query.text.startswith("My lamp is dull.\n\n")
    assert task.query.context == "Be kind."
    changes = [(tool, EXCHANGE), (tool, EXCHANGE | {"new_item_ids": ["10"]}), ("return_delivered_order_items", EXCHANGE)]
    said = make(
        shop.open(task),
        *(("ask_user", {"about": about, "question": "?"}) for about in ("identity", "wishes")),
        *(("confirm_with_user", {"action": name, "arguments": arguments}) for name, arguments in changes),
    )
    assert said == ["I am Ann.", "My lamp is dull.\nA brighter one.", True, False, False]


def test_the_same_files_are_the_same_suites(shop: Suite, airline: Suite, tmp_path_factory: pytest.TempPathFactory) -> None:
    db = copy.deepcopy(test_tau2.DB)
    db["tasks"]["task_1"]["kept"] = "no"
    files = test_tau2.write(tmp_path_factory.mktemp("mock"), [test_tau2.row("sweep", test_tau2.CREATE)], db__json=db)
    asked = test_tau2_telecom.row([test_tau2_telecom.ABROAD], [test_tau2_telecom.REBOOT], [test_tau2_telecom.ONLINE])
    phone, _ = test_tau2_telecom.only(tmp_path_factory.mktemp("telecom"), asked)
    digests = [suite.digest[:8] for suite in (tau2.load(files), phone, shop, airline)]
    assert digests == ["2a3e9ca7", "9ca17637", "6b74dfbc", "5c6377ec"]


@pytest.mark.parametrize(("change", "kept"), [({}, True), ({"extra": 1}, True), ({"zip": 1}, False), ({"zip": None}, False)])
def test_an_address_is_whole_and_has_nothing_else_also_where_no_schema_checks_it(change: dict[str, Any], kept: bool) -> None:
    db, address = TrialTables(SHOP), {name: value for name, value in (AWAY | change).items() if value is not None}
    with nullcontext() if kept else pytest.raises(ValueError, match="zip"):
        assert retail.modify_user_address(db, "ann", **address)["address"] == AWAY
    assert bool(db.changes()) == kept


def test_no_record_has_a_key_that_is_no_text() -> None:
    with pytest.raises(NotFound):
        TrialTables(SHOP).get("users", ["ann"])  # type: ignore[arg-type]  # what a tool may be given


def test_a_plan_asks_first_looks_up_once_and_has_each_change_agreed_to(shop: Suite) -> None:
    plan = shop.tasks[0].plan
    assert plan is not None
    assert [call.id for call in plan.calls] == ["ask_identity", "ask_wishes", "c1", "yes2", "c2"]
    assert plan.dependencies["c1"] == {"ask_identity", "ask_wishes"}
    assert plan.dependencies["c2"] == {"yes2"}


def test_the_plans_solve_their_tasks(shop: Suite, airline: Suite) -> None:
    assert [accuracy(shop, task, *planned(task)) for task in shop.tasks] == [1, 1]
    assert accuracy(shop, shop.tasks[0]) == 0
    (booking,) = airline.tasks
    assert accuracy(airline, booking, *planned(booking), answer="It costs $180.") == 1
    assert accuracy(airline, booking, *planned(booking), answer="It costs $179.") == 0


WORTH = st.integers(0, 3)
PAIRS = st.lists(st.tuples(WORTH, WORTH), max_size=5)


def swap(pairs: list[tuple[int, int]], *, order: int = 1) -> ProposedCall:
    lists = {"old": [old for old, _ in pairs], "new": [new for _, new in pairs]}
    return ProposedCall("swap", {"order": order, **lists}, ("old", "new"))


@given(PAIRS, PAIRS, st.data())
def test_lists_side_by_side_are_pairs_in_any_order(pairs: Any, other: Any, data: st.DataObject) -> None:
    assert swap(pairs).allows(swap(data.draw(st.permutations(pairs))))
    assert swap(pairs).allows(swap(other)) == (sorted(pairs) == sorted(other))
    assert swap(pairs).allows(swap(other)) == swap(other).allows(swap(pairs))
    assert not swap(pairs).allows(swap(pairs, order=2))


def test_only_tools_that_make_changes_may_write(shop: Suite, airline: Suite) -> None:
    for suite in (shop, airline):
        trial = suite.open(suite.tasks[0])
        writes = {tool.name for tool in trial.tools if not tool.read_only}
        assert writes == {name for name in (tool.name for tool in trial.tools) if name.split("_")[0] in VERBS}
        assert suite.tasks[0].plan is not None
        other = suite.open(suite.tasks[0])
        for call in suite.tasks[0].plan.calls:
            before = trial.state()
            (seen,) = make(trial, (call.tool, call.arguments))
            assert (trial.state() != before) == (call.tool in writes)
            if isinstance(seen, dict):  # no door into the tables
                seen.clear()
        assert trial.state() == suite.tasks[0].end_state
        assert other.state() == {"changed": {}}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("You are Ann in zip code 1. You do not remember your email.", "I am Ann in zip code 1. I do not remember my email."),
        ("you're sick, and want the agent to help you yourself.", "I'm sick, and want the agent to help me myself."),
    ],
)
def test_what_an_actor_is_told_becomes_the_customer_s_words(told: str, said: str) -> None:
    assert first_person(told) == said


@given(st.lists(st.tuples(st.sampled_from(["get", "edit", "add"]), st.sampled_from("abc"), st.integers(0, 2)), max_size=8))
def test_changes_are_the_difference_to_the_shared_tables(steps: list[tuple[str, str, int]]) -> None:
    shared = {"things": {"a": {"n": 0}, "b": {"n": 1}}, "others": {}}
    before, records, model = copy.deepcopy(shared), TrialTables(shared), copy.deepcopy(shared["things"])
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


ITEMS = {"order_id": "#1", "item_ids": ["10"], "new_item_ids": ["11"], "payment_method_id": "gift_2"}
RETURN = {"order_id": "#2", "item_ids": ["12", "10"], "payment_method_id": "gift_1"}
PERSON = [{"first_name": "Cy", "last_name": "Ng", "dob": "1991-01-01"}]
R1: dict[str, Any] = {"reservation_id": "R1"}
MOVE = R1 | {"cabin": "economy", "flights": [{"flight_number": "F1", "date": "2024-05-21"}], "payment_id": "gift_9"}
BAGS = R1 | {"total_baggages": 3, "nonfree_baggages": 2, "payment_id": "card_9"}


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
        ("modify_pending_order_items", ITEMS | {"new_item_ids": ["10"]}, "A new item is the old one"),
        ("modify_pending_order_items", ITEMS | {"payment_method_id": "gift_1"}, "balance of gift_1 is too low"),
        ("exchange_delivered_order_items", EXCHANGE | {"item_ids": ["10", "10"]}, "holds item 10 1 times"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["12"]}, "not available"),
        ("exchange_delivered_order_items", EXCHANGE | {"new_item_ids": ["20"]}, "no variant of the product"),
        ("book_reservation", BOOKING | {"total_baggages": 3, "nonfree_baggages": 2}, "The price is 230, and 180 is paid"),
        ("book_reservation", BOOKING | {"cabin": "business"}, "has 0 seats in business"),
        ("book_reservation", BOOKING | {"payment_methods": [{"payment_id": "gift_9", "amount": 180}]}, "gift_9 is too low"),
        ("update_reservation_baggages", BAGS | {"payment_id": "certificate_9"}, "certificate cannot pay"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(shop: Suite, airline: Suite, name: str, arguments: dict[str, Any], error: str) -> None:
    in_shop = name in {tool.name for tool in shop.open(shop.tasks[0]).tools}
    seen, changed = after(shop if in_shop else airline, name, **arguments)
    assert error in str(seen)
    assert changed == {}


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
