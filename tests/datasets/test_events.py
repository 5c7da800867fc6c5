"""The booking service keeps count of its seats, and its stories are solved by their plans alone."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.suite import task_problems
from whichloop.datasets import events
from whichloop.datasets.events import service
from whichloop.datasets.events.programme import Programme, draw_programme, total
from whichloop.datasets.events.service import City
from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Environment, InvalidRequest, Suite, Task
from whichloop.datasets.validity import planned_answer, replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.protocol import Observation, Ref, Toolbox, ToolCall, resolve, run_sync

few = settings(max_examples=cases(10), deadline=None)
keys = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return events.load()


def programme_of(key: int) -> Programme:
    return draw_programme(Draw("test", key), main=5, others=2)


def call(environment: Environment, tool: str, /, **arguments: Any) -> Observation:
    return run_sync(Toolbox(environment.tools).call(ToolCall(tool, arguments)))


def value(environment: Environment, tool: str, /, **arguments: Any) -> Any:
    seen = call(environment, tool, **arguments)
    assert seen.ok, seen
    return seen.value


# The suite


@settings(max_examples=cases(6), deadline=None)
@given(size=st.integers(1, 20), seed=st.integers(-(2**40), 2**40))
def test_plans_give_the_expected_answers_for_any_size_and_seed(size: int, seed: int) -> None:
    assert task_problems(events.load(size=size, seed=seed)) == []


def test_the_default_tasks_are_valid_and_every_state_is_judged(suite: Suite) -> None:
    assert task_problems(replace(suite, tasks=suite.tasks[:48])) == []
    assert all(task.end_state is not None for task in suite.tasks)
    assert len({task.labels["template"] for task in suite.tasks}) == 46
    assert {task.labels["difficulty"] for task in suite.tasks} == {"easy", "medium", "hard"}


def solved(task: Task, suite: Suite, order: Draw) -> dict[str, float]:
    """The scores of a plan whose calls are made in an order of their own, as far as they do not need each other."""
    assert task.plan is not None
    environment = suite.open(task)
    toolbox, waiting = Toolbox(environment.tools), list(task.plan.calls)
    results: dict[str, Any] = {}
    while waiting:
        planned = order.choice([item for item in waiting if task.plan.dependencies[item.id] <= results.keys()])
        seen = run_sync(toolbox.call(ToolCall(planned.tool, resolve(planned.arguments, results))))
        assert seen.ok is not planned.fails
        results[planned.id] = seen.value
        waiting.remove(planned)
    answer = "not determined" if task.plan.answer is None else resolve(task.plan.answer, results)
    return scores_of(Judgement(task, answer, "finished", environment.state()))


@few
@given(key=keys)
def test_calls_that_do_not_need_each_other_may_be_made_in_any_order(suite: Suite, key: int) -> None:
    order = Draw(key)
    assert solved(order.choice(suite.tasks), suite, order)["accuracy"] == 1


def test_doing_nothing_and_saying_the_code_is_not_enough(suite: Suite) -> None:
    booking = [task for task in suite.tasks if task.plan and any(made.tool == "book" for made in task.plan.calls)]
    assert len(booking) > 60
    for task in booking:
        answer = planned_answer(task, run_sync(replay(task, suite)))
        scores = scores_of(Judgement(task, answer, "finished", suite.open(task).state()))
        assert scores == {"accuracy": 0, "answer": 1, "state": 0}


def test_holding_and_booking_once_more_spoils_the_end_state(suite: Suite) -> None:
    task = next(task for task in suite.tasks if task.labels["template"] == "one_evening")
    assert task.plan is not None
    environment = suite.open(task)
    results: dict[str, Any] = {}
    for planned in task.plan.calls:
        results[planned.id] = value(environment, planned.tool, **resolve(planned.arguments, results))
    assert environment.state() == task.end_state
    held, booked = task.plan.calls[-2:]
    again = call(environment, booked.tool, **resolve(booked.arguments, results))
    assert again.error_type == "HoldUsed"
    assert environment.state() == task.end_state
    results[held.id] = value(environment, held.tool, **resolve(held.arguments, results))
    assert value(environment, booked.tool, **resolve(booked.arguments, results))["booking_code"] != task.expected
    assert environment.state() != task.end_state


def test_two_environments_of_a_task_do_not_see_each_other(suite: Suite) -> None:
    for task in suite.tasks[:15]:
        assert task.plan is not None
        world = copy.deepcopy(task.world)
        first, second = suite.open(task), suite.open(task)
        before = second.state()
        for booking in [row[0] for row in before]:
            value(first, "cancel_booking", booking_code=booking)
        assert first.state() == []
        assert second.state() == before
        assert task.world == world
        assert run_sync(replay(task, suite))


def test_every_task_shows_the_same_tools_and_none_of_them_tells_a_code(suite: Suite) -> None:
    shown = {str([tool.spec for tool in suite.open(task).tools]) for task in suite.tasks[:20]}
    assert len(shown) == 1
    text = shown.pop()
    for task in suite.tasks:
        codes = task.expected if isinstance(task.expected, list) else [task.expected]
        assert not any(isinstance(code, str) and (code in text or code in task.query.text) for code in codes)


def test_a_refusal_is_planned_in_some_tasks_and_followed_by_calls_that_wait_for_it(suite: Suite) -> None:
    refused = [task for task in suite.tasks if task.plan and any(made.fails for made in task.plan.calls)]
    ending = {"not_on_that_date", "unknown_code"}  # the refusal is all that there is to find
    going_on = {"second_date", "another_event", "sold_out", "second_choice", "smaller_party"}
    assert {task.labels["template"] for task in refused} == ending | going_on
    for task in refused:
        if task.labels["template"] in ending:
            continue
        assert task.plan is not None
        failed = {made.id for made in task.plan.calls if made.fails}
        assert any(task.plan.dependencies[made.id] & failed for made in task.plan.calls)


# The service


@given(key=keys)
@few
def test_a_world_survives_its_way_through_rows(key: int) -> None:
    world = programme_of(key).city.as_world()
    assert City.of(world).as_world() == world


steps = st.lists(
    st.tuples(st.sampled_from(["hold", "book", "cancel"]), st.integers(0, 20), st.integers(0, 2), st.integers(1, 20)), max_size=40
)


@few
@given(key=keys, steps=steps)
def test_seats_are_never_lost_nor_sold_twice(key: int, steps: list[tuple[str, int, int, int]]) -> None:
    city = City.of(programme_of(key).city.as_world())
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
    for hold_id, hold in city.holds.items():
        if hold_id not in city.used:
            counted[hold.event.id, hold.date] += hold.seats
    for booking in city.bookings.values():
        counted[booking.event_id, booking.date] += booking.seats
    return counted


@given(key=keys, seats=st.integers(1, 12), place=st.integers(0, 4), day=st.integers(0, 2))
@few
def test_what_is_quoted_is_what_is_paid_and_what_comes_back_is_part_of_it(key: int, seats: int, place: int, day: int) -> None:
    programme = programme_of(key)
    city, event, date = programme.city, programme.main[place], programme.dates[day]
    quote = service.price_quote(city, event.id, date, seats)
    made = service.book(city, programme.customer, service.hold_seats(city, event.id, date, seats)["hold_id"])
    assert quote["total"] == made["paid"] == float(total(event, date, seats))
    assert service.booking_details(city, made["booking_code"])["paid"] == made["paid"]
    back = service.cancel_booking(city, made["booking_code"])["refund"]
    assert back == pytest.approx(made["paid"] * event.refund_percent / 100)
    assert service.list_bookings(city, programme.customer)["booking_codes"] == []


@given(key=keys)
@few
def test_the_pages_of_a_search_hold_each_event_once(key: int) -> None:
    city = programme_of(key).city
    pages = range(1, service.search_events(city)["pages"] + 1)
    found = [event["event_id"] for page in pages for event in service.search_events(city, page=page)["events"]]
    assert found == list(city.events)
    for event in city.events.values():
        assert [hit["event_id"] for hit in service.search_events(city, text=event.title.upper())["events"]] == [event.id]
        hits = service.search_events(city, category=event.category, district=service.VENUES[event.venue])["events"]
        assert event.id in [hit["event_id"] for hit in hits]


@given(key=keys)
@few
def test_reading_changes_nothing(key: int) -> None:
    city = programme_of(key).city
    before = copy.deepcopy(city)
    for event in city.events.values():
        for read in (service.event_details, service.door_price):
            assert read(city, event.id) == read(city, event.id)
        for date in event.shows:
            assert service.availability(city, event.id, date) == service.availability(city, event.id, date)
    for name in city.customers:
        service.list_bookings(city, name)
    assert city == before


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("search_events", {"category": "opera"}, "UnknownName"),
        ("search_events", {"district": "Moon"}, "UnknownName"),
        ("search_events", {"page": 9}, "InvalidRequest"),
        ("search_events", {"page": "two"}, "InvalidArguments"),
        ("event_details", {"event_id": "E1"}, "UnknownName"),
        ("availability", {"event_id": "E1", "date": "2026-01-01"}, "UnknownName"),
        ("book", {"name": "Nobody Known", "hold_id": "hold-1"}, "UnknownName"),
        ("cancel_booking", {"booking_code": "QQQQ-1"}, "UnknownBooking"),
        ("booking_details", {"booking_code": "QQQQ-1"}, "UnknownBooking"),
        ("list_bookings", {"name": "Nobody Known"}, "UnknownName"),
        ("list_bookings", {}, "InvalidArguments"),
    ],
)
def test_bad_arguments_are_refused_by_name(suite: Suite, tool: str, arguments: dict[str, Any], error: str) -> None:
    environment = suite.open(suite.tasks[0])
    before = environment.state()
    seen = call(environment, tool, **arguments)
    assert (seen.ok, seen.error_type) == (False, error)
    assert environment.state() == before


def test_bad_holds_and_second_cancellations_are_refused() -> None:
    programme = programme_of(3)
    city, event, date = programme.city, programme.main[0], programme.dates[0]
    for seats in (0, -2, service.MAX_SEATS + 1):
        with pytest.raises(InvalidRequest):
            service.hold_seats(city, event.id, date, seats)
    with pytest.raises(service.NoSuchShow, match="only on"):
        service.hold_seats(city, event.id, "2026-12-31", 2)
    with pytest.raises(service.UnknownHold):
        service.book(city, programme.customer, "hold-E1-01-01-1")
    event.shows[date].left = 1
    with pytest.raises(service.NotEnoughSeats, match="1 are left"):
        service.hold_seats(city, event.id, date, 2)
    code = next(iter(city.bookings))
    service.cancel_booking(city, code)
    with pytest.raises(service.AlreadyCancelled):
        service.cancel_booking(city, code)
    with pytest.raises(service.AlreadyCancelled):
        service.booking_details(city, code)


def test_goals_do_not_tell_which_event_is_right(suite: Suite) -> None:
    for task in suite.tasks:
        if task.labels["template"] in ("cheapest", "longest_within_budget", "suitable_for_a_child", "price_of_the_shortest"):
            assert task.plan is not None
            chosen = [made for made in task.plan.calls if made.tool in ("hold_seats", "book") or made is task.plan.calls[-1]]
            titles = [row[1] for row in task.world["events"]]
            assert not any(title in made.goal for made in chosen for title in titles)
            assert any(isinstance(item, Ref) for item in chosen[0].arguments.values())
