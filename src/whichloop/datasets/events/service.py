"""The booking service: a city's programme for three days, prices, holds and bookings, and the tools over it.

Whoever wants seats holds them first and books the hold. A booking's code is the event's series and the show's next number, so it
can only be had by booking. Money is kept in cents and told in dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from whichloop.datasets.task import InvalidRequest, Toolset, UnknownName, look_up

PAGE = 4
"""Events on one page of search results."""
MAX_SEATS = 20
"""The most seats that one hold may have."""
DOOR_SURCHARGE = 450
"""Cents that a seat costs more at the door."""

VENUES: Mapping[str, str] = {
    "Old Mill": "Riverside", "Glass House": "Riverside", "Ferry Hall": "Harbour", "Customs House": "Harbour",
    "Town Barn": "Northgate", "Tram Depot": "Northgate", "Clock Tower": "Old Town", "Guild Room": "Old Town",
}  # fmt: skip
"""Venue → district."""
DISTRICTS = tuple(dict.fromkeys(VENUES.values()))
CATEGORIES = ("concert", "theatre", "comedy", "dance")


class NoSuchShow(LookupError):
    """The event is not shown on that date."""


class NotEnoughSeats(Exception):
    """Fewer seats are left than are wanted."""


class UnknownHold(LookupError):
    """No such hold."""


class HoldUsed(Exception):
    """The hold has become a booking before."""


class UnknownBooking(LookupError):
    """No such booking."""


class AlreadyCancelled(Exception):
    """The booking was cancelled before."""


@dataclass(slots=True)
class Show:
    """An event on one date."""

    cents: int
    """Price of a seat."""
    left: int
    """Seats that are neither held nor booked."""
    number: int
    """Number of the next booking."""
    holds: int = 0
    """Number of holds so far."""


@dataclass(slots=True)
class Event:
    """What is on, and on what terms."""

    id: str
    title: str
    category: str
    venue: str
    language: str
    minutes: int
    min_age: int
    series: str
    """What its booking codes begin with."""
    group_from: int
    """Seats from which a group's discount is given."""
    group_percent: int
    refund_percent: int
    shows: dict[str, Show]
    """The shows by date."""


class Booking(NamedTuple):
    code: str
    name: str
    event_id: str
    date: str
    seats: int
    cents: int
    """What was paid."""


class City:
    """The service's state, of one trial."""

    def __init__(self, world: Mapping[str, Any]) -> None:
        """Read what `as_world` returned."""
        self.dates: list[str] = world["dates"]
        self.customers: list[str] = world["customers"]
        self.events: dict[str, Event] = {}
        for *facts, numbers in world["events"]:
            shows = {date: Show(*row) for date, row in zip(self.dates, numbers, strict=True) if row}
            self.events[facts[0]] = Event(*[*facts, shows])
        self.bookings = {row[0]: Booking(*row) for row in world["bookings"]}
        """Bookings by code, without cancelled ones."""
        self.holds: dict[str, tuple[Event, str, int]] = {}
        """What is held: event, date and seats."""
        self.used: dict[str, str] = {}
        """Hold → code of the booking it became."""
        self.cancelled: set[str] = set()

    def as_world(self) -> dict[str, Any]:
        """Return compact JSON: an event is a row of its facts and one [cents, left, number] per date, empty if not shown."""
        events = []
        for event in self.events.values():
            *facts, shows = (getattr(event, item.name) for item in fields(event))
            rows = [[show.cents, show.left, show.number] if (show := shows.get(date)) else [] for date in self.dates]
            events.append([*facts, rows])
        bookings = [list(booking) for booking in self.bookings.values()]
        return {"dates": self.dates, "customers": self.customers, "events": events, "bookings": bookings}

    def state(self) -> list[list[Any]]:
        """Return [code, name, event, date, seats] of all bookings, by code. Holds lapse and are not part of it."""
        return sorted(list(booking[:-1]) for booking in self.bookings.values())

    def event(self, event_id: str) -> Event:
        return look_up(self.events, event_id, f"there is no event {event_id!r}")

    def show(self, event_id: str, date: str) -> Show:
        shows = self.event(event_id).shows
        return look_up(shows, date, f"{event_id} is not shown on {date!r}, only on {', '.join(shows)}", NoSuchShow)

    def booking(self, code: str) -> Booking:
        if code in self.cancelled:
            raise AlreadyCancelled(f"booking {code} was cancelled already")
        return look_up(self.bookings, code, f"there is no booking {code!r}", UnknownBooking)

    def add_booking(self, name: str, event: Event, date: str, seats: int) -> Booking:
        show = event.shows[date]
        booking = Booking(f"{event.series}-{show.number}", name, event.id, date, seats, cost(event, date, seats)[1])
        show.number += 1
        self.bookings[booking.code] = booking
        return booking

    def check_customer(self, name: str) -> None:
        if name not in self.customers:
            raise UnknownName(f"there is no customer named {name!r}")


def dollars_from_cents(cents: int) -> int | float:
    return cents // 100 if cents % 100 == 0 else cents / 100


def _check_seats(seats: int) -> None:
    if not 1 <= seats <= MAX_SEATS:
        raise InvalidRequest(f"seats is {seats}, and must lie between 1 and {MAX_SEATS}")


def cost(event: Event, date: str, seats: int) -> tuple[int, int]:
    """Return the discount in percent and the price of all seats in cents."""
    percent = event.group_percent if seats >= event.group_from else 0
    return percent, seats * event.shows[date].cents * (100 - percent) // 100


def search_events(city: City, text: str = "", category: str = "", district: str = "", page: int = 1) -> dict[str, Any]:
    """Search the programme.

    text: words that the title must have, all of them. category: concert, theatre, comedy or dance. district: part of the city.
    Empty filters let everything through. Gives one page of events with their ids, and the number of pages.
    """
    if category and category not in CATEGORIES:
        raise UnknownName(f"there is no category {category!r}, only {', '.join(CATEGORIES)}")
    if district and district not in DISTRICTS:
        raise UnknownName(f"there is no district {district!r}, only {', '.join(DISTRICTS)}")
    words = set(text.casefold().split())
    events = [
        {"event_id": event.id, "title": event.title, "category": event.category, "venue": event.venue}
        for event in city.events.values()
        if words <= set(event.title.casefold().split())
        and category in ("", event.category)
        and district in ("", VENUES[event.venue])
    ]
    pages = max(1, -(-len(events) // PAGE))
    if not 1 <= page <= pages:
        raise InvalidRequest(f"page is {page}, and must lie between 1 and {pages}")
    return {"events": events[(page - 1) * PAGE : page * PAGE], "page": page, "pages": pages}


def event_details(city: City, event_id: str) -> dict[str, Any]:
    """The dates of an event, its language, its length in minutes, the lowest age, and the percentage paid back on cancelling."""
    event = city.event(event_id)
    facts = {name: getattr(event, name) for name in ("language", "minutes", "min_age", "refund_percent")}
    return {"event_id": event.id, "dates": list(event.shows), **facts}


def availability(city: City, event_id: str, date: str) -> dict[str, Any]:
    """How many seats can still be had. date: as in 2026-05-08."""
    return {"event_id": event_id, "date": date, "seats_left": city.show(event_id, date).left}


def price_quote(city: City, event_id: str, date: str, seats: int) -> dict[str, Any]:
    """What a booking of so many seats costs in dollars, with the discount that a group of this size gets."""
    _check_seats(seats)
    show = city.show(event_id, date)
    percent, cents = cost(city.event(event_id), date, seats)
    seat, total = dollars_from_cents(show.cents), dollars_from_cents(cents)
    return {"event_id": event_id, "seat": seat, "discount_percent": percent, "total": total}


def door_price(city: City, event_id: str) -> dict[str, Any]:
    """What a seat costs in dollars if it is bought at the door. Seats that are booked cost something else."""
    dearest = max(show.cents for show in city.event(event_id).shows.values())
    return {"event_id": event_id, "door_price": dollars_from_cents(dearest + DOOR_SURCHARGE)}


def hold_seats(city: City, event_id: str, date: str, seats: int) -> dict[str, Any]:
    """Hold seats for a booking; nobody else can have them meanwhile. Fails where fewer are left."""
    _check_seats(seats)
    show = city.show(event_id, date)
    if show.left < seats:
        raise NotEnoughSeats(f"{seats} seats are wanted for {event_id} on {date}, {show.left} are left")
    show.left -= seats
    show.holds += 1
    hold_id = f"hold-{event_id}-{date[5:]}-{show.holds}"
    city.holds[hold_id] = (city.events[event_id], date, seats)
    return {"hold_id": hold_id, "event_id": event_id, "date": date, "seats": seats}


def book(city: City, name: str, hold_id: str) -> dict[str, Any]:
    """Book and pay held seats. name: the customer's, first and last. A hold can be booked once; gives the booking's code."""
    city.check_customer(name)
    event, date, seats = look_up(city.holds, hold_id, f"there is no hold {hold_id!r}", UnknownHold)
    if hold_id in city.used:
        raise HoldUsed(f"hold {hold_id} was booked already, as {city.used[hold_id]}")
    booking = city.add_booking(name, event, date, seats)
    city.used[hold_id] = booking.code
    paid = dollars_from_cents(booking.cents)
    return {"booking_code": booking.code, "event_id": event.id, "date": date, "seats": seats, "paid": paid}


def cancel_booking(city: City, booking_code: str) -> dict[str, Any]:
    """Cancel a booking: its seats are free again, and part of the price is paid back, in dollars."""
    booking = city.booking(booking_code)
    del city.bookings[booking_code]
    city.cancelled.add(booking_code)
    event = city.events[booking.event_id]
    event.shows[booking.date].left += booking.seats
    return {"booking_code": booking_code, "refund": dollars_from_cents(booking.cents * event.refund_percent // 100)}


def list_bookings(city: City, name: str) -> dict[str, Any]:
    """The codes of a customer's bookings. name: first and last."""
    city.check_customer(name)
    return {"name": name, "booking_codes": [booking.code for booking in city.bookings.values() if booking.name == name]}


def booking_details(city: City, booking_code: str) -> dict[str, Any]:
    """What was booked: event, date, seats, and the price paid in dollars."""
    code, _name, event_id, date, seats, cents = city.booking(booking_code)
    title, paid = city.events[event_id].title, dollars_from_cents(cents)
    return {"booking_code": code, "title": title, "event_id": event_id, "date": date, "seats": seats, "paid": paid}


TOOLS: Toolset[City] = Toolset(
    search_events, event_details, availability, price_quote, door_price, hold_seats, book, cancel_booking, list_bookings,
    booking_details,
    writes=(hold_seats, book, cancel_booking),
)  # fmt: skip
DISTRACTORS = frozenset({"door_price"})
