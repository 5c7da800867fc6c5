"""What the stories are about: a city drawn at random, and plans written in the service's own verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, PlanWriter, distinct, draw_new, draw_until, part
from .service import CATEGORIES, PAGE, VENUES, Booking, City, Event, Show

ANSWER_FORMAT = (
    "Answer with what is asked for and nothing else: a booking code, two codes with a comma between them, or a number. "
    'If it cannot be determined, the right answer is "not determined".'
)

_FIRST = ("Mira", "Jonas", "Amara", "Tomas", "Leila", "Sander", "Ines", "Kofi", "Greta", "Rafael", "Yuki", "Nadia")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Petrov", "Alvarez", "Haddad", "Novak", "Tanaka", "Byrne", "Castellano")
_PLACES = ("Harbour", "Garden", "Midnight", "Copper", "Lantern", "Willow", "Silver", "Summer")
_STYLES = {
    "concert": ("Jazz", "Choir", "Strings", "Brass", "Folk", "Organ"),
    "theatre": ("Drama", "Puppets", "Tragedy", "Masks", "Monologues", "Farce"),
    "comedy": ("Improv", "Satire", "Clowns", "Slapstick", "Sketches", "Cabaret"),
    "dance": ("Tango", "Ballet", "Flamenco", "Swing", "Waltz", "Hip-Hop"),
}
_FORMS = ("Night", "Gala", "Hour", "Evening", "Session", "Revue")
_LANGUAGES = ("English", "French", "Spanish", "German", "Polish")
_LETTERS = "BCDFGHKLMNPRSTVWXZ"


@dataclass(slots=True)
class Programme:
    """A city, and those of its events that a story is about."""

    city: City
    category: str
    main: list[Event]
    """All events of the category, in the order in which a search finds them; shown on every date."""
    draw: Draw

    @property
    def dates(self) -> list[str]:
        return self.city.dates

    @property
    def customer(self) -> str:
        """The customer whom the story is about; the next one shares the last name."""
        return self.city.customers[0]

    def draft(
        self,
        script: EventScript,
        question: Sequence[str],
        answer: Any,
        expected: Any,
        *,
        booked: Iterable[list[Any]] = (),
        cancelled: Iterable[Booking] = (),
    ) -> Draft:
        """Return the task: `booked` (see `ticket`) and `cancelled` are the bookings that come and go."""
        gone = {booking.code for booking in cancelled}
        bookings_left = [booking.row() for booking in self.city.bookings.values() if booking.code not in gone]
        return Draft(
            question=" ".join((*question, ANSWER_FORMAT)),
            plan=script.plan(answer),
            expected=expected,
            scorer=_scorer(expected),
            world=self.city.as_world(),
            end_state=sorted([*bookings_left, *booked]),
        )


def _scorer(expected: Any) -> str:
    if isinstance(expected, list):
        return "set"
    return "numeric" if isinstance(expected, int | float) else "normalized"


def ticket(event: Event, date: str, seats: int, name: str) -> list[Any]:
    """Return a booking as it stands in the end state; its code comes first."""
    return [f"{event.series}-{event.shows[date].number}", name, event.id, date, seats]


def total(event: Event, date: str, seats: int) -> Fraction:
    """Return the dollars for all seats."""
    share = Fraction(100 - event.group_percent, 100) if seats >= event.group_from else Fraction(1)
    return Fraction(event.shows[date].cents, 100) * seats * share


def draw_programme(draw: Draw, main: int = 3, others: int = 3) -> Programme:
    """Draw a city with `main` events of one category and some of other ones; titles, names and codes look alike and differ."""
    category = draw.choice(CATEGORIES)
    rest = [name for name in CATEGORIES if name != category]
    kinds = draw.shuffled([category] * main + [draw.choice(rest) for _ in range(others)])
    month, day = draw.integer(4, 10), draw.integer(1, 26)
    dates = [f"2026-{month:02d}-{day + later:02d}" for later in range(3)]
    titles = _titles(draw, kinds)
    series = distinct(len(kinds), lambda: "".join(draw.choice(_LETTERS) for _ in range(4)))
    numbers = distinct(len(kinds), lambda: str(draw.integer(100, 999)))
    venues = draw.sample(list(VENUES), len(kinds))
    events = [
        Event(
            id=f"E{numbers[i]}",
            title=titles[i],
            category=kind,
            venue=venues[i],
            language=draw.choice(_LANGUAGES),
            minutes=draw.integer(45, 180),
            min_age=draw.choice((0, 6, 8, 10, 12, 14, 16, 18)),
            series=series[i],
            group_from=draw.integer(3, 10),
            group_percent=draw.integer(5, 25, 5),
            refund_percent=draw.choice((40, 60, 80)),
            shows={
                date: Show(draw.integer(9, 64) * 100, draw.integer(12, 60), 100 * place + draw.integer(10, 80))
                for place, date in enumerate(sorted(dates if kind == category else draw.sample(dates, 2)), 1)
            },
        )
        for i, kind in enumerate(kinds)
    ]
    city = City(dates, _customers(draw), {event.id: event for event in events}, {})
    programme = Programme(city, category, [event for event in events if event.category == category], draw)
    for name in city.customers[1:]:
        other = draw.choice(events)
        earlier_booking(programme, name, other, draw.choice(list(other.shows)), draw.integer(1, 6))
    return programme


def earlier_booking(programme: Programme, name: str, event: Event, date: str, seats: int) -> Booking:
    """Make a booking before the story begins."""
    cents = total(event, date, seats) * 100
    booking = Booking(ticket(event, date, seats, name)[0], name, event.id, date, seats, int(cents))
    event.shows[date].number += 1
    programme.city.bookings[booking.code] = booking
    return booking


def _titles(draw: Draw, kinds: Sequence[str]) -> list[str]:
    """Draw different titles made of few words."""
    places, forms = draw.sample(_PLACES, 2), draw.sample(_FORMS, 3)
    titles: list[str] = []
    for kind in kinds:
        styles = _STYLES[kind]
        titles.append(draw_new(titles, lambda: f"{draw.choice(places)} {draw.choice(styles)} {draw.choice(forms)}"))  # noqa: B023
    return titles


def _customers(draw: Draw) -> list[str]:
    firsts, lasts = draw.sample(_FIRST, 4), draw.sample(_LAST, 3)
    return [f"{firsts[0]} {lasts[0]}", f"{firsts[1]} {lasts[0]}", f"{firsts[2]} {lasts[1]}", f"{firsts[3]} {lasts[2]}"]


# Wording


AMOUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def programme_where(draw: Draw, fits: Callable[[Programme], bool], main: int, others: int = 3) -> Programme:
    """Draw programmes until one fits, and return it."""
    return draw_until(fits, lambda: draw_programme(draw, main, others))


def one_is_least(values: Sequence[Fraction | int]) -> bool:
    return values.count(min(values)) == 1


def one_is_most(values: Sequence[Fraction | int]) -> bool:
    return values.count(max(values)) == 1


def who(draw: Draw, name: str) -> str:
    return draw.pick(
        f"{name} writes to the booking desk.",
        f"You book tickets for {name}.",
        f"A message from {name} has come in overnight.",
        f"{name} is on the phone and in a hurry.",
        f"{name} is planning an outing and asks for your help.",
        f"This request was left by {name}, a regular customer.",
        f"{name} has filled in the form on the web page.",
        f"There is a note from {name} on your desk.",
        f"At the counter stands {name}, with a dog.",
    )


def aside(draw: Draw) -> str:
    """Draw a sentence that does not matter."""
    return draw.pick(
        "The tram runs until midnight.",
        f"Last year the same party came {draw.integer(3, 9)} times.",
        "Nobody minds where they sit.",
        f"There is a table reserved for {draw.integer(21, 23)}:00 afterwards.",
        "A cousin has recommended another one, but never mind that.",
        f"Parking costs ${draw.integer(4, 19)} for the evening.",
        "The weather is said to be fine.",
        "Programme booklets are sold at the entrance.",
        "Coats can be left at the entrance free of charge.",
        f"They are going to meet at {draw.integer(17, 19)}:30 in front of the building.",
        "If it rains, someone will bring umbrellas.",
        "The babysitter has been told already.",
        "One of them is left-handed, which hardly matters here.",
        f"The hotel, {draw.integer(2, 9)} minutes away, is booked.",
    )


def listing(titles: Sequence[str]) -> str:
    return f"{', '.join(titles[:-1])} and {titles[-1]}"


# Plans


class EventScript(PlanWriter):
    """A plan in the service's verbs; each gives the reference to its result."""

    def search(self, category: str, page: int = 1, after: Iterable[Ref] = ()) -> Ref:
        """Plan to read a page of the events of a category."""
        arguments: dict[str, Any] = {"category": category}
        goal = f"Search the programme for {category} events."
        if page > 1:
            arguments["page"] = page
            goal = f"Turn to page {page} of the {category} events."
        return self.call(goal, "search_events", arguments, after=after)

    def search_all(self, programme: Programme) -> list[Ref]:
        """Plan to read all pages of the main events; return the references to their ids, in order."""
        first = self.search(programme.category)
        pages = [first]
        for page in range(2, (len(programme.main) - 1) // PAGE + 2):
            pages.append(self.search(programme.category, page, after=[first]))
        return [part(pages[i // PAGE], "events", i % PAGE, "event_id") for i in range(len(programme.main))]

    def search_words(self, text: str) -> Ref:
        return self.call(f"Search the programme for titles with {text}.", "search_events", {"text": text})

    def search_district(self, district: str, category: str = "") -> Ref:
        """Plan to search a district for events, of any category or of one."""
        arguments = {"category": category, "district": district} if category else {"district": district}
        return self.call(f"Search the programme for {category or 'all'} events in {district}.", "search_events", arguments)

    def details(self, event: Event, event_id: Ref) -> Ref:
        return self.call(f"Read the details of {event.title}.", "event_details", {"event_id": event_id})

    def seats_left(self, event: Event, event_id: Ref, date: str) -> Ref:
        goal = f"See how many seats {event.title} has left on {date}."
        return self.call(goal, "availability", {"event_id": event_id, "date": date})

    def quote(self, what: str, event_id: Ref, date: str, seats: int, after: Iterable[Ref] = ()) -> Ref:
        """Plan to ask for a price; `what`: the event in words."""
        return self._quote(what, {"event_id": event_id, "date": date, "seats": seats}, after, False)

    def quote_refused(self, what: str, event_id: Ref, date: str, seats: int) -> Ref:
        """Plan to ask for a price on a date on which the event is not shown."""
        return self._quote(what, {"event_id": event_id, "date": date, "seats": seats}, (), True)

    def _quote(self, what: str, arguments: Mapping[str, Any], after: Iterable[Ref], fails: bool) -> Ref:
        goal = f"Get the price of {arguments['seats']} seats for {what} on {arguments['date']}."
        return self.call(goal, "price_quote", arguments, after=after, fails=fails)

    def hold(self, what: str, event_id: Ref, date: str, seats: int | Ref, after: Iterable[Ref] = ()) -> Ref:
        return self._hold(what, {"event_id": event_id, "date": date, "seats": seats}, after, False)

    def hold_like(self, what: str, booking: Ref, seats: int | Ref, after: Iterable[Ref]) -> Ref:
        """Plan to hold seats for the event and date of a booking."""
        arguments = {"event_id": part(booking, "event_id"), "date": part(booking, "date"), "seats": seats}
        return self.call(f"Hold the seats for {what} on the date that is booked.", "hold_seats", arguments, after=after)

    def hold_instead(self, what: str, event_id: Ref, booking: Ref, after: Iterable[Ref]) -> Ref:
        """Plan to hold as many seats as a booking has, on its date, for another event."""
        arguments = {"event_id": event_id, "date": part(booking, "date"), "seats": part(booking, "seats")}
        return self.call(f"Hold as many seats for {what} on the same date.", "hold_seats", arguments, after=after)

    def hold_refused(self, what: str, event_id: Ref, date: str, seats: int, after: Iterable[Ref] = ()) -> Ref:
        """Plan a hold that is refused since too few seats are left."""
        return self._hold(what, {"event_id": event_id, "date": date, "seats": seats}, after, True)

    def _hold(self, what: str, arguments: Mapping[str, Any], after: Iterable[Ref], fails: bool) -> Ref:
        return self.call(f"Hold the seats for {what} on {arguments['date']}.", "hold_seats", arguments, after=after, fails=fails)

    def book(self, what: str, hold: Ref, name: str) -> Ref:
        """Plan a booking, and return the reference to its code."""
        booking = self.call(f"Book the held seats for {what}.", "book", {"name": name, "hold_id": part(hold, "hold_id")})
        return part(booking, "booking_code")

    def hold_and_book(self, what: str, event_id: Ref, date: str, seats: int | Ref, name: str, after: Iterable[Ref] = ()) -> Ref:
        """Plan to hold seats and to book them, and return the reference to the booking's code."""
        return self.book(what, self.hold(what, event_id, date, seats, after=after), name)

    def bookings(self, name: str, count: int) -> list[Ref]:
        """Plan to look at all `count` bookings of a customer, and return the references to them."""
        listed = self.call(f"List the bookings of {name}.", "list_bookings", {"name": name})
        codes = [part(listed, "booking_codes", place) for place in range(count)]
        return [
            self.call(f"Look at booking number {place} of {name}.", "booking_details", {"booking_code": code})
            for place, code in enumerate(codes, 1)
        ]

    def cancel(self, what: str, booking: Ref, after: Iterable[Ref] = ()) -> Ref:
        code = part(booking, "booking_code")
        return self.call(f"Cancel {what}.", "cancel_booking", {"booking_code": code}, after=after)
