"""Stories of new bookings, and of questions before one. Their texts stand in `wording.toml`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..generating import Draft, draw_new, part
from .programme import FIRST, CityStory, template
from .service import VENUES, Event, cost

Item = TypeVar("Item")
DISTRICTS = tuple(dict.fromkeys(VENUES.values()))


def is_alone(pick: Callable[[Sequence[int]], int], values: Sequence[int]) -> bool:
    """Return whether only one value is the least, or the most."""
    return values.count(pick(values)) == 1


def total(event: Event, date: str, seats: int) -> int:
    """Return the cents for all seats."""
    return cost(event, event.shows[date], seats)[1]


def totals(s: CityStory, day: int, seats: int) -> list[int]:
    """Return what seats for each main event cost on a day."""
    return [total(event, s.dates[day], seats) for event in s.main]


@template
def one_evening(s: CityStory) -> Draft:
    """The event is known by its venue alone."""
    s.draw_city(main=4)
    event, date, seats = s.choice(s.main), s.choice(s.dates), s.integer(2, 9)
    event_id = part(s.search(), "events", s.main.index(event), "event_id")
    code = s.hold_and_book(f"the {s.category} event that is wanted", event_id, date, seats)
    return s.told_draft(code, locals())


@template
def cheapest(s: CityStory) -> Draft:
    """All events of a category, on two pages, and the price for the whole group decides."""
    seats, day = s.integer(4, 9), s.integer(0, 2)
    s.draw_city(main=5, others=2, where=lambda: is_alone(min, totals(s, day, seats)))
    date, refs = s.dates[day], s.search_all()
    prices = [s.quote(event.title, ref, date, seats) for event, ref in zip(s.main, refs, strict=True)]
    best = totals(s, day, seats).index(min(totals(s, day, seats)))
    code = s.hold_and_book(f"the cheapest of the {s.category} events", refs[best], date, seats, after=prices)
    return s.told_draft(code, locals())


@template
def longest_within_budget(s: CityStory) -> Draft:
    """Two facts of each event count: its length and its price."""
    seats, day = s.integer(2, 7), s.integer(0, 2)

    def costs() -> list[int]:
        return sorted(totals(s, day, seats))

    s.draw_city(main=3, others=3, where=lambda: is_alone(max, [e.minutes for e in s.main]) and costs()[2] - costs()[1] > 600)
    date, budget = s.dates[day], costs()[1] // 100 + s.integer(1, 5)
    best = max((event for event in s.main if total(event, date, seats) <= budget * 100), key=lambda event: event.minutes)
    refs, facts = s.search_all(), []
    for event, ref in zip(s.main, refs, strict=True):
        facts += [s.details(event, ref), s.quote(event.title, ref, date, seats)]
    code = s.hold_and_book("the longest event within the budget", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


@template
def suitable_for_a_child(s: CityStory) -> Draft:
    """Language and age decide, and only the details state them."""
    s.draw_city(main=4, others=2)
    best, date, seats = s.choice(s.main), s.choice(s.dates), s.integer(2, 6)
    age = s.integer(7, 13)
    best.min_age = s.choice([limit for limit in (0, 6, 8, 10, 12) if limit <= age])
    for number, event in enumerate(other for other in s.main if other is not best):
        if number % 2:  # right language, wrong age
            event.language, event.min_age = best.language, s.choice((14, 16, 18))
        elif event.language == best.language:
            event.language = "Italian"
    refs = s.search_all()
    facts = s.all_details(refs)
    code = s.hold_and_book("the event that suits the child", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


@template
def two_parties(s: CityStory) -> Draft:
    """Two bookings that have nothing to do with each other."""
    s.draw_city(main=3)
    names = (s.customer, s.city.customers[2])
    other = s.choice([event for event in s.events if event.category != s.category])
    wanted = ((s.choice(s.main), s.choice(s.dates)), (other, s.choice(list(other.shows))))
    counts = s.sample(range(2, 10), 2)
    found = [s.search_words(event.title) for event, _ in wanted]
    codes, said = [], []
    for (event, date), name, seats, event_id in zip(wanted, names, counts, found, strict=True):
        codes.append(s.hold_and_book(event.title, event_id, date, seats, name=name))
        said.append({"event": event, "date": date, "name": name, "seats": seats})
    lines = " ".join(s.say("line", line) for line in said)
    return s.told_draft(codes, {"opening": s.say("opening", {}), "lines": lines})


@template
def emptiest_date(s: CityStory) -> Draft:
    """The date with most seats left, and what it costs then."""
    seats = s.integer(3, 9)
    s.draw_city(main=3, where=lambda: is_alone(max, [show.left for show in s.main[0].shows.values()]))
    event = s.main[0]
    best = max(s.dates, key=lambda date: event.shows[date].left)
    event_id = s.search_words(event.title)
    seen = [s.seats_left(event, event_id, date) for date in s.dates]
    price = s.quote("the date that is wanted", event_id, best, seats, after=seen)
    return s.told_draft(part(price, "total"), locals())


@template
def price_of_the_shortest(s: CityStory) -> Draft:
    """The details of all events of a category, then one price."""
    seats = s.integer(2, 9)
    s.draw_city(main=5, others=2, where=lambda: is_alone(min, [event.minutes for event in s.main]))
    date = s.choice(s.dates)
    best = min(s.main, key=lambda event: event.minutes)
    refs = s.search_all()
    price = s.quote("the shortest event", refs[s.main.index(best)], date, seats, after=s.all_details(refs))
    return s.told_draft(part(price, "total"), locals())


@template
def not_on_the_programme(s: CityStory) -> Draft:
    """There are events whose titles are nearly right."""
    s.draw_city(main=4)
    place, style, _ = s.choice(s.main).title.split()
    titles = {event.title for event in s.events}
    title = next(new for other in ("Marathon", "Brunch") if (new := f"{place} {style} {other}") not in titles)
    seats, date = s.integer(2, 9), s.choice(s.dates)
    s.call(f"Search the programme for titles with {title}.", "search_events", {"text": title})
    s.search()
    return s.told_draft(None, locals())


@template
def beyond_the_budget(s: CityStory) -> Draft:
    """Whatever is on costs more than there is."""
    seats = s.integer(3, 9)
    s.draw_city(main=4)
    date = s.choice(s.dates)
    budget = min(total(event, date, seats) for event in s.main) // 100 - s.integer(1, 8)
    for event, ref in zip(s.main, s.search_all(), strict=True):
        s.quote(event.title, ref, date, seats)
    return s.told_draft(None, locals())


# Seats, dates, terms or other people's bookings decide what is booked


@template
def earliest_with_room(s: CityStory) -> Draft:
    """The dates are looked at in turn, and the first ones have too few seats."""
    s.draw_city(main=3)
    event, seats = s.choice(s.main), s.integer(4, 9)
    full = s.integer(1, 2)
    for date in s.dates[:full]:
        s.few_left(event, date, seats)
    event_id = s.search_words(event.title)
    seen = [s.seats_left(event, event_id, date) for date in s.dates[: full + 1]]
    return s.told_draft(s.hold_and_book(event.title, event_id, s.dates[full], seats, after=seen), locals())


@template
def booked_on_the_cheapest_date(s: CityStory) -> Draft:
    """Three prices of one event, then a booking."""
    seats = s.integer(3, 9)
    s.draw_city(main=3, where=lambda: is_alone(min, [total(s.main[0], date, seats) for date in s.dates]))
    event = s.main[0]
    best = min(s.dates, key=lambda date: total(event, date, seats))
    event_id = s.search_words(event.title)
    prices = [s.quote(event.title, event_id, date, seats) for date in s.dates]
    return s.told_draft(s.hold_and_book(event.title, event_id, best, seats, after=prices), locals())


@template
def split_party(s: CityStory) -> Draft:
    """One event, two dates, two bookings of one customer."""
    s.draw_city(main=3)
    event, chosen, counts = s.choice(s.main), sorted(s.sample(s.dates, 2)), s.sample(range(2, 10), 2)
    event_id = s.search_words(event.title)
    codes = []
    for date, seats in zip(chosen, counts, strict=True):
        what = s.say("goal", {"seats": seats, "event": event})
        codes.append(s.hold_and_book(what, event_id, date, seats))
    return s.told_draft(codes, {"event": event, "dates": chosen, "counts": counts})


@template
def two_events(s: CityStory) -> Draft:
    """Two events of one category, found by one search."""
    s.draw_city(main=4, others=2)
    seats = s.integer(2, 9)
    (first, second), (early, late) = s.sample(s.main, 2), s.sample(s.dates, 2)
    page = s.search()
    codes = [
        s.hold_and_book(event.title, part(page, "events", s.main.index(event), "event_id"), date, seats)
        for event, date in ((first, early), (second, late))
    ]
    return s.told_draft(codes, locals())


@template
def in_a_district(s: CityStory) -> Draft:
    """A category and a district leave one event."""
    district = s.choice(DISTRICTS)
    s.draw_city(main=4, where=lambda: [VENUES[event.venue] for event in s.main].count(district) == 1)
    date, seats = s.choice(s.dates), s.integer(2, 9)
    event_id = part(s.search_district(district, s.category), *FIRST)
    code = s.hold_and_book(f"the {s.category} event of the district", event_id, date, seats)
    return s.told_draft(code, locals())


@template
def best_terms(s: CityStory) -> Draft:
    """The share that is paid back on cancelling decides."""
    s.draw_city(main=3, where=lambda: is_alone(max, [event.refund_percent for event in s.main]))
    best = max(s.main, key=lambda event: event.refund_percent)
    date, seats, refs = s.choice(s.dates), s.integer(2, 9), s.search_all()
    facts = s.all_details(refs)
    code = s.hold_and_book("the event with the best terms", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


@template
def shortest_with_room(s: CityStory) -> Draft:
    """Length and free seats of each event count, and the shortest one is full."""
    s.draw_city(main=3, where=lambda: len({event.minutes for event in s.main}) == len(s.main))
    shortest, best, _ = sorted(s.main, key=lambda event: event.minutes)
    date, seats = s.choice(s.dates), s.integer(4, 9)
    s.few_left(shortest, date, seats)
    refs, facts = s.search_all(), []
    for event, ref in zip(s.main, refs, strict=True):
        facts += [s.details(event, ref), s.seats_left(event, ref, date)]
    code = s.hold_and_book("the shortest event with room", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


@template
def largest_discount(s: CityStory) -> Draft:
    """The discount for the group, not the price, decides."""
    seats, day = s.integer(6, 9), s.integer(0, 2)

    def percents() -> list[int]:
        return [cost(event, event.shows[s.dates[day]], seats)[0] for event in s.main]

    s.draw_city(main=3, where=lambda: is_alone(max, percents()))
    date, refs = s.dates[day], s.search_all()
    prices = [s.quote(event.title, ref, date, seats) for event, ref in zip(s.main, refs, strict=True)]
    best = refs[percents().index(max(percents()))]
    return s.told_draft(s.hold_and_book("the event with the largest discount", best, date, seats, after=prices), locals())


@template
def cheaper_of_two(s: CityStory) -> Draft:
    """Two events are named, and their prices decide."""
    seats, day = s.integer(2, 9), s.integer(0, 2)
    s.draw_city(main=2, others=4, where=lambda: len(set(totals(s, day, seats))) == 2)
    date, both = s.dates[day], s.shuffled(s.main)
    best = min((0, 1), key=lambda place: total(both[place], date, seats))
    refs = [s.search_words(event.title) for event in both]
    prices = [s.quote(event.title, ref, date, seats) for event, ref in zip(both, refs, strict=True)]
    return s.told_draft(s.hold_and_book("the cheaper of the two", refs[best], date, seats, after=prices), locals())


@template
def second_choice(s: CityStory) -> Draft:
    """The first event has too few seats, and another one is named for that case."""
    s.draw_city(main=3)
    seats, date = s.integer(4, 9), s.choice(s.dates)
    first, second = s.sample(s.main, 2)
    s.few_left(first, date, seats)
    refs = [s.search_words(event.title) for event in (first, second)]
    refused = s.hold(first.title, refs[0], date, seats, fails=True)
    return s.told_draft(s.hold_and_book(second.title, refs[1], date, seats, after=[refused]), locals())


@template
def smaller_party(s: CityStory) -> Draft:
    """There are too few seats for all, and enough for some."""
    s.draw_city(main=3)
    event, date, seats = s.choice(s.main), s.choice(s.dates), s.integer(6, 9)
    fewer = s.integer(2, seats - 2)
    event.shows[date].left = s.integer(fewer, seats - 1)
    event_id = s.search_words(event.title)
    refused = s.hold(f"all at {event.title}", event_id, date, seats, fails=True)
    code = s.hold_and_book(f"fewer people at {event.title}", event_id, date, fewer, after=[refused])
    return s.told_draft(code, locals())


@template
def join_friends(s: CityStory) -> Draft:
    """The date stands in a friend's booking only."""
    s.draw_city(main=4)
    name, friend = s.customer, s.city.customers[1]
    before = [booking for booking in s.city.bookings.values() if booking.name == friend]
    taken = [s.event_of(booking) for booking in before]
    event = draw_new(taken, lambda: s.choice(s.main))
    third = draw_new([event, *taken], lambda: s.choice(s.main))
    theirs = [*before, *s.book_each(friend, s.shuffled([event, third]))]
    place = next(place for place, booking in enumerate(theirs) if booking.event_id == event.id)
    seats, seen = s.integer(2, 9), s.bookings(friend, len(theirs))
    code = s.book(event.title, s.hold_like(event.title, seen[place], seats, after=seen))
    return s.told_draft(code, locals())
