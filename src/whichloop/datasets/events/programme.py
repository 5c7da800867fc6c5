"""What the stories are about: a city drawn at random, and the plan written in the service's own verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, distinct, draw_new, part
from ..story import Story, Wording
from ..task import Task, WorldEnvironment
from .service import CATEGORIES, PAGE, TOOLS, VENUES, Booking, City, Event, Show, cost

_LETTERS = "BCDFGHKLMNPRSTVWXZ"


def is_alone(pick: Callable[[Sequence[int]], int], values: Sequence[int]) -> bool:
    """Return whether only one value is the least, or the most."""
    return values.count(pick(values)) == 1


def total(event: Event, date: str, seats: int) -> int:
    """Return the cents for all seats."""
    return cost(event, date, seats)[1]


def open_city(task: Task) -> WorldEnvironment[City]:
    return TOOLS.over(City(task.world), City.state)


class CityStory(Story):
    """A city with `main` events of one category, shown on every date, and others; and what is done there."""

    wording = Wording(__file__)
    city: City

    def draw_city(self, main: int = 3, others: int = 3, where: Callable[[], bool] = lambda: True) -> None:
        """Draw cities until one fits. Titles, names and codes look alike and differ."""
        while True:
            self._draw_city(main, others)
            if where():
                return

    def draw_best(
        self,
        pick: Callable[..., Any],
        key: Callable[[Any], int],
        main: int = 3,
        others: int = 3,
        of: Callable[[], Sequence[Any]] | None = None,
    ) -> Any:
        """Draw cities until one of the main events, or `of` others or dates, alone has the least or the most; return that one."""
        among = of or (lambda: self.main)
        self.draw_city(main, others, lambda: is_alone(pick, [*map(key, among())]))
        return pick(among(), key=key)

    def _draw_city(self, main: int, others: int) -> None:
        texts = self.wording.texts
        category = self.category = self.choice(CATEGORIES)
        rest = [name for name in CATEGORIES if name != category]
        kinds = self.shuffled([category] * main + [self.choice(rest) for _ in range(others)])
        month, day = self.integer(4, 10), self.integer(1, 26)
        dates = self.dates = [f"2026-{month:02d}-{day + later:02d}" for later in range(3)]
        places, forms = self.sample(texts["places"], 2), self.sample(texts["forms"], 3)
        titles: list[str] = []
        for styles in map(texts["styles"].get, kinds):
            titles.append(draw_new(titles, lambda: f"{self.choice(places)} {self.choice(styles)} {self.choice(forms)}"))  # noqa: B023
        series = distinct(len(kinds), lambda: "".join(self.choice(_LETTERS) for _ in range(4)))
        numbers = distinct(len(kinds), lambda: str(self.integer(100, 999)))
        venues = self.sample(list(VENUES), len(kinds))
        events = self.events = [
            Event(
                id=f"E{numbers[i]}",
                title=titles[i],
                category=kind,
                venue=venues[i],
                language=self.choice(texts["languages"]),
                minutes=self.integer(45, 180),
                min_age=self.choice((0, 6, 8, 10, 12, 14, 16, 18)),
                series=series[i],
                group_from=self.integer(3, 10),
                group_percent=self.integer(5, 25, 5),
                refund_percent=self.choice((40, 60, 80)),
                shows={
                    date: Show(self.integer(9, 64) * 100, self.integer(12, 60), 100 * place + self.integer(10, 80))
                    for place, date in enumerate(sorted(dates if kind == category else self.sample(dates, 2)), 1)
                },
            )
            for i, kind in enumerate(kinds)
        ]
        firsts, lasts = self.sample(texts["first_names"], 4), self.sample(texts["last_names"], 3)
        customers = [f"{first} {last}" for first, last in zip(firsts, (lasts[0], *lasts), strict=True)]
        self.city = City({"dates": dates, "customers": customers, "events": (), "bookings": ()})
        self.city.events = {event.id: event for event in events}
        self.main, self.customer = [event for event in events if event.category == category], customers[0]
        for name in customers[1:]:
            other = self.choice(events)
            self.city.add_booking(name, other, self.choice(list(other.shows)), self.integer(1, 6))

    def book_each(self, name: str, events: Sequence[Event]) -> list[Booking]:
        """Book each event for a customer, on any date and for any number of people."""
        return [self.city.add_booking(name, event, self.choice(self.dates), self.integer(2, 9)) for event in events]

    def event_of(self, booking: Booking) -> Event:
        return self.city.events[booking.event_id]

    def few_left(self, event: Event, date: str, seats: int) -> None:
        """Leave fewer seats of a show than are wanted."""
        event.shows[date].left = self.integer(0, seats - 1)

    def settle(self) -> None:
        world = self.city.as_world()
        self.begin(TOOLS.over(City(world), City.state), world)

    def told_draft(self, answer: Any, names: Mapping[str, Any]) -> Draft:
        known = {"name": self.customer, "category": self.category, "dates": self.dates, **names}
        scorer = "normalized" if answer is None else ""
        return self.draft(f"{self.told(known)} {self.wording.texts['answer_format']}", answer, scorer)

    # The plan

    def search(self, page: int = 1, after: Iterable[Ref] = ()) -> Ref:
        """Plan to read a page of the events of the category."""
        arguments: dict[str, Any] = {"category": self.category}
        if page == 1:
            return self.call(f"Search the programme for {self.category} events.", "search_events", arguments, after=after)
        goal = f"Turn to page {page} of the {self.category} events."
        return self.call(goal, "search_events", {**arguments, "page": page}, after=after)

    def search_all(self) -> list[Ref]:
        """Plan to read all pages of the main events; return the references to their ids, in order."""
        pages = [self.search()]
        for page in range(2, (len(self.main) - 1) // PAGE + 2):
            pages.append(self.search(page, after=pages[:1]))
        return [part(pages[i // PAGE], "events", i % PAGE, "event_id") for i in range(len(self.main))]

    def search_words(self, text: str) -> Ref:
        """Plan to look for titles; return the reference to the id of the first one."""
        found = self.call(f"Search the programme for titles with {text}.", "search_events", {"text": text})
        return part(found, "events", 0, "event_id")

    def search_district(self, district: str, category: str = "") -> Ref:
        arguments = {"category": category, "district": district} if category else {"district": district}
        return self.call(f"Search the programme for {category or 'all'} events in {district}.", "search_events", arguments)

    def each(self, plan: Callable[..., Ref], refs: Sequence[Ref], *values: Any) -> list[Ref]:
        """Plan a call about each main event, such as `details`."""
        return [plan(event.title, ref, *values) for event, ref in zip(self.main, refs, strict=True)]

    def details(self, what: str, event_id: Ref) -> Ref:
        return self.call(f"Read the details of {what}.", "event_details", {"event_id": event_id})

    def seats_left(self, what: str, event_id: Ref, date: str) -> Ref:
        return self.call(f"See how many seats {what} has left on {date}.", "availability", {"event_id": event_id, "date": date})

    def quote(self, what: str, event_id: Ref, date: str, seats: int | Ref, after: Iterable[Ref] = (), fails: bool = False) -> Ref:
        arguments = {"event_id": event_id, "date": date, "seats": seats}
        many = "as many" if isinstance(seats, Ref) else seats
        return self.call(f"Get the price of {many} seats for {what} on {date}.", "price_quote", arguments, after=after, fails=fails)

    def hold(self, what: str, event_id: Ref, date: str, seats: int | Ref, after: Iterable[Ref] = (), fails: bool = False) -> Ref:
        arguments = {"event_id": event_id, "date": date, "seats": seats}
        return self.call(f"Hold the seats for {what} on {date}.", "hold_seats", arguments, after=after, fails=fails)

    def hold_like(self, what: str, booking: Ref, seats: int | Ref, after: Iterable[Ref]) -> Ref:
        """Plan to hold seats for the event and date of a booking."""
        arguments = {"event_id": part(booking, "event_id"), "date": part(booking, "date"), "seats": seats}
        return self.call(f"Hold the seats for {what} on the date that is booked.", "hold_seats", arguments, after=after)

    def book(self, what: str, hold: Ref, name: str = "") -> Ref:
        """Plan a booking, and return the reference to its code."""
        arguments = {"name": name or self.customer, "hold_id": part(hold, "hold_id")}
        return part(self.call(f"Book the held seats for {what}.", "book", arguments), "booking_code")

    def hold_and_book(
        self, what: str, event_id: Ref, date: str, seats: int | Ref, after: Iterable[Ref] = (), name: str = ""
    ) -> Ref:
        return self.book(what, self.hold(what, event_id, date, seats, after=after), name)

    def bookings(self, name: str, count: int) -> list[Ref]:
        """Plan to look at all `count` bookings of a customer, and return the references to them."""
        listed = self.call(f"List the bookings of {name}.", "list_bookings", {"name": name})
        codes = [part(listed, "booking_codes", place) for place in range(count)]
        return [
            self.call(f"Look at booking number {number} of {name}.", "booking_details", {"booking_code": code})
            for number, code in enumerate(codes, 1)
        ]

    def cancel(self, what: str, booking: Ref, after: Iterable[Ref] = ()) -> Ref:
        code = part(booking, "booking_code")
        return self.call(f"Cancel {what}.", "cancel_booking", {"booking_code": code}, after=after)
