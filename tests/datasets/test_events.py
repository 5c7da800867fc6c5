"""The booking service keeps count of its seats, and its stories are solved by their plans alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.events import service
from whichloop.datasets.events.programme import CityStory, total
from whichloop.datasets.events.service import City
from whichloop.datasets.generating import Draw

few = settings(max_examples=cases(10), deadline=None)
keys = st.integers(0, 10_000)


def programme_of(key: int) -> CityStory:
    story = CityStory(Draw("test", key))
    story.draw_city(main=5, others=2)
    return story


steps = st.lists(
    st.tuples(st.sampled_from(["hold", "book", "cancel"]), st.integers(0, 20), st.integers(0, 2), st.integers(1, 20)), max_size=40
)


@few
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
@few
def test_what_is_quoted_is_what_is_paid_and_what_comes_back_is_part_of_it(key: int, seats: int, place: int, day: int) -> None:
    programme = programme_of(key)
    city, event, date = programme.city, programme.main[place], programme.dates[day]
    quote = service.price_quote(city, event.id, date, seats)
    made = service.book(city, programme.customer, service.hold_seats(city, event.id, date, seats)["hold_id"])
    assert quote["total"] == made["paid"] == total(event, date, seats) / 100
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


def test_too_many_seats_and_second_cancellations_are_refused() -> None:
    programme = programme_of(3)
    city, event, date = programme.city, programme.main[0], programme.dates[0]
    event.shows[date].left = 1
    with pytest.raises(service.NotEnoughSeats, match="1 are left"):
        service.hold_seats(city, event.id, date, 2)
    code = next(iter(city.bookings))
    service.cancel_booking(city, code)
    for tool in (service.cancel_booking, service.booking_details):
        with pytest.raises(service.AlreadyCancelled):
            tool(city, code)
