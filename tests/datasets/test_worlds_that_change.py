"""Worlds that calls change: what is kept, lost, paid back or done twice, however their tools are called."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import errands
from whichloop.datasets.ecommerce import tools as shop_tools
from whichloop.datasets.ecommerce.shop import Shop, draw_shop
from whichloop.datasets.events import service
from whichloop.datasets.events.programme import CityStory, total
from whichloop.datasets.events.service import City
from whichloop.datasets.generating import Draw
from whichloop.datasets.repairs import plant as plant_tools
from whichloop.datasets.repairs.plant import Plant, draw_plant
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import carry_out
from whichloop.protocol import Toolbox, ToolCall, run_sync
from whichloop.protocol.tool_calls import TransientError

SHOPS = st.integers(1, 10**9).map(draw_shop)


@settings(max_examples=cases(7), deadline=None)
@given(shop=SHOPS, fees=st.lists(st.sampled_from([0, 5, 10, 35, 100]), max_size=6))
def test_no_line_is_paid_back_more_often_than_it_was_bought(shop: Shop, fees: list[int]) -> None:
    for line in [row for row in shop.tables["lines"].values() if row["line"] and row["state"] == "delivered"]:
        stock, paid, back = shop_tools.get_product(shop, line["sku"])["stock"], 0.0, []
        for fee in fees:
            try:
                paid += shop_tools.refund_line(shop, line["order_id"], line["line"], 1, fee)["amount"]
                back.append(fee)
            except shop_tools.Refused:
                assert len(back) == line["quantity"]
        assert len(back) == min(len(fees), line["quantity"])
        assert paid == pytest.approx(sum(line["unit_price"] * (100 - fee) / 10_000 for fee in back))
        assert shop_tools.get_product(shop, line["sku"])["stock"] == stock + back.count(0)


@settings(max_examples=10, deadline=None)
@given(shop=SHOPS)
def test_a_swap_there_and_back_leaves_the_shelf_as_it_was(shop: Shop) -> None:
    for line in [row for row in shop.tables["lines"].values() if row["line"]]:
        old = line["sku"]
        new = shop.siblings(old)[0]["sku"]
        shelf = [shop_tools.get_product(shop, sku)["stock"] for sku in (old, new)]
        try:
            left = shop_tools.exchange_line(shop, line["order_id"], line["line"], new)["left_in_stock"]
        except shop_tools.OutOfStock:
            assert shelf[1] < line["quantity"]
            continue
        assert left == shelf[1] - line["quantity"]
        shop_tools.exchange_line(shop, line["order_id"], line["line"], old)
        assert [shop_tools.get_product(shop, sku)["stock"] for sku in (old, new)] == shelf


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
    for task in many.tasks[:10]:
        assert task.plan is not None
        assert state_after(task, many) == task.end_state, task.id
        for call in task.plan.calls:
            if call.tool in READS or call.fails:
                assert state_after(task, many, twice=call.id) == task.end_state, (task.id, call.id)
                continue
            assert state_after(task, many, twice=call.id) != task.end_state, (task.id, call.id)
            assert state_after(task, many, without=call.id) != task.end_state, (task.id, call.id)


few_of_events = settings(max_examples=cases(10), deadline=None)
keys = st.integers(0, 10_000)


def programme_of(key: int) -> CityStory:
    story = CityStory(Draw("test", key))
    story.draw_city(main=5, others=2)
    return story


steps = st.lists(
    st.tuples(st.sampled_from(["hold", "book", "cancel"]), st.integers(0, 20), st.integers(0, 2), st.integers(1, 20)), max_size=40
)


@few_of_events
@given(key=keys, steps=steps)
def test_seats_are_never_lost_nor_sold_twice(key: int, steps: list[tuple[str, int, int, int]]) -> None:
    city = City(programme_of(key).city.as_world())
    before = places(city)
    holds: list[str] = []
    for kind, number, day, seats in steps:
        event_id = list(city.events)[number % len(city.events)]
        try:
            if kind == "hold":
                holds.append(service.hold_seats(city, event_id, city.dates[day], seats)["hold_id"])
            elif kind == "book" and holds:
                service.book(city, city.customers[day], holds[number % len(holds)])
            elif kind == "cancel" and city.bookings:
                service.cancel_booking(city, list(city.bookings)[number % len(city.bookings)])
        except (service.NoSuchShow, service.NotEnoughSeats, service.HoldUsed):
            pass
        assert places(city) == before
        assert all(show.left >= 0 for event in city.events.values() for show in event.shows.values())
    assert len(set(holds)) == len(holds)


def places(city: City) -> dict[tuple[str, str], int]:
    """All seats of each show: left, held and booked."""
    counted = {(event.id, date): show.left for event in city.events.values() for date, show in event.shows.items()}
    for hold_id, (event, date, seats) in city.holds.items():
        if hold_id not in city.used:
            counted[event.id, date] += seats
    for booking in city.bookings.values():
        counted[booking.event_id, booking.date] += booking.seats
    return counted


@given(key=keys, seats=st.integers(1, 12), place=st.integers(0, 4), day=st.integers(0, 2))
@few_of_events
def test_what_is_quoted_is_what_is_paid_and_what_comes_back_is_part_of_it(key: int, seats: int, place: int, day: int) -> None:
    programme = programme_of(key)
    city, event, date = programme.city, programme.main[place], programme.dates[day]
    quote = service.price_quote(city, event.id, date, seats)
    hold_id = service.hold_seats(city, event.id, date, seats)["hold_id"]
    made = service.book(city, programme.customer, hold_id)
    with pytest.raises(service.HoldUsed, match=f"as {made['booking_code']}"):
        service.book(city, programme.customer, hold_id)
    assert quote["total"] == made["paid"] == total(event, date, seats) / 100
    assert service.booking_details(city, made["booking_code"])["paid"] == made["paid"]
    back = service.cancel_booking(city, made["booking_code"])["refund"]
    assert back == pytest.approx(made["paid"] * event.refund_percent / 100)
    assert service.list_bookings(city, programme.customer)["booking_codes"] == []


PLANTS = st.integers(1, 10**9)


def troubled(number: int, **trouble: Any) -> tuple[Plant, str, str, float]:
    """A plant whose first machine's thermometer has this trouble; with the machine's and the sensor's number, and its value."""
    plant = draw_plant(number)
    asset, machine = next(iter(plant.machines.items()))
    sensor = machine["sensors"]["temperature"]
    plant.trouble = {f"read_sensor/{sensor}": trouble, f"open_work_order/{asset}": trouble}
    return plant, asset, sensor, plant.sensors[sensor]["value"]


@given(number=PLANTS, drops=st.integers(0, 4), reads=st.integers(1, 8))
def test_a_link_drops_as_often_as_it_should_and_then_holds(number: int, drops: int, reads: int) -> None:
    plant, _, sensor, value = troubled(number, drops=drops)
    for attempt in range(reads):
        if attempt < drops:
            with pytest.raises(plant_tools.LinkDown, match="Try again"):
                plant_tools.read_sensor(plant, sensor)
        else:
            assert plant_tools.read_sensor(plant, sensor)["value"] == value
    assert issubclass(plant_tools.LinkDown, TransientError)


@given(number=PLANTS, wrong=st.text(max_size=8))
def test_only_the_permit_of_the_ticket_gets_past_a_rate_limit(number: int, wrong: str) -> None:
    plant, _, sensor, value = troubled(number, ticket="N12345", permit="L12345")
    for permit in ("", wrong):
        with pytest.raises(plant_tools.RateLimited, match="ticket N12345"):
            plant_tools.read_sensor(plant, sensor, permit)
    permit = plant_tools.wait_turn(plant, "N12345")["permit"]
    assert plant_tools.read_sensor(plant, sensor, permit)["value"] == value
    with pytest.raises(plant_tools.NotKnown):
        plant_tools.wait_turn(plant, f"N{wrong}")


@given(number=PLANTS, kept=st.booleans(), tries=st.integers(1, 4))
def test_each_order_that_gets_through_is_one_more(number: int, kept: bool, tries: int) -> None:
    """Repeated blindly, an order that has arrived stands there as often as it was sent."""
    plant, asset, _, _ = troubled(number, reference="X1", kept=kept)
    before = plant_tools.list_work_orders(plant, asset)
    for _ in range(tries):
        with pytest.raises(plant_tools.OutcomeUnknown, match="reference X1"):
            plant_tools.open_work_order(plant, asset, "inspect")
    after = plant_tools.list_work_orders(plant, asset)
    assert (after[: len(before)], len(after)) == (before, len(before) + tries * kept)
    made = plant_tools.open_work_order(plant, asset, "inspect", "X1")["work_order"]
    assert [order["work_order"] for order in plant_tools.list_work_orders(plant, asset)].count(made) == 1
    assert len({number for number, _, _ in plant.work_orders}) == len(plant.work_orders)


@given(number=PLANTS, stale=st.integers(0, 2), quantity=st.integers(1, 100))
def test_every_quote_that_has_expired_leads_to_one_that_is_dearer(number: int, stale: int, quantity: int) -> None:
    plant = draw_plant(number)
    (name, known), (other, facts), *_ = plant.parts.items()
    plant.trouble = {f"order_part/{name}": {"stale": stale}}
    first = plant_tools.order_part(plant, name, quantity)
    for quote, newer in zip(known["quotes"][:stale], known["quotes"][1:], strict=False):
        with pytest.raises(plant_tools.QuoteExpired, match=newer):
            plant_tools.order_part(plant, name, quantity, quote)
        assert plant.purchases == []
    quote = known["quotes"][stale]
    bought = plant_tools.order_part(plant, name, quantity, quote)
    assert (first["quote"], bought["paid"]) == (known["quotes"][0], known["prices"][stale] * quantity)
    assert (bought["paid"] > first["total"]) is bool(stale)
    assert bought["budget_left"] == plant.budget - bought["paid"]
    with pytest.raises(plant_tools.NotKnown, match="used already"):
        plant_tools.order_part(plant, name, quantity, quote)
    assert len(plant.purchases) == 1
    facts["quotes"][0] = quote  # its own, though the number is the same
    assert plant_tools.order_part(plant, other, quantity, quote)["paid"] == facts["prices"][0] * quantity


@given(number=PLANTS, hall=st.sampled_from(["A", "B", "C"]), renewed=st.booleans())
def test_pages_hold_each_alarm_once_whatever_becomes_of_a_cursor(number: int, hall: Any, renewed: bool) -> None:
    plant = draw_plant(number)
    old = plant.cursors[hall][0]
    plant.trouble = {f"list_alarms/{old}": {"goes_on": "K99999"}} if renewed else {}
    seen: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        try:
            page = plant_tools.list_alarms(plant, hall, cursor)
            seen, cursor = seen + page["alarms"], page["next"]
        except plant_tools.CursorExpired as error:
            assert (cursor, renewed) == (old, True)
            cursor = str(error).rstrip(".").split()[-1]
    assert seen == plant.alarms[hall]
