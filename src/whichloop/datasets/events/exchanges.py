"""Stories that begin with a customer's bookings: some go, are exchanged, moved or handed on; of shows that are sold out; and
questions that book nothing. What each asks for stands under its name in `wording.toml`."""

from __future__ import annotations

from whichloop.protocol import Ref

from ..generating import Draft, part
from .programme import CityStory, is_alone, total
from .service import DISTRICTS, VENUES, Booking, Event

# Bookings that go


def both_go(s: CityStory) -> Draft:
    s.draw_city(main=3)
    mine = s.book_each(s.customer, s.shuffled(s.main))
    kept = s.choice(mine)
    gone = [place for place, booking in enumerate(mine) if booking is not kept]
    titles = [s.event_of(mine[place]).title for place in gone]
    seen = s.bookings(s.customer, len(mine))
    back = [s.cancel(f"the booking for {title}", seen[at], after=seen) for title, at in zip(titles, gone, strict=True)]
    place = s.integer(0, 1)
    title = titles[place]
    return s.told_draft(part(back[place], "refund"), locals())


def given_code(s: CityStory) -> Draft:
    """The code stands in the question."""
    s.draw_city(main=3)
    gone = s.choice(s.book_each(s.customer, s.sample(s.main, 2)))
    back = s.call(f"Cancel {gone.code}.", "cancel_booking", {"booking_code": gone.code})
    return s.told_draft(part(back, "refund"), locals())


def one_evening_goes(s: CityStory) -> Draft:
    s.draw_city(main=3)
    event = s.choice(s.main)
    mine = [s.city.add_booking(s.customer, event, date, s.integer(2, 9)) for date in s.shuffled(s.dates)]
    gone = s.choice(mine)
    seen = s.bookings(s.customer, len(mine))
    back = s.cancel("the booking for that evening", seen[mine.index(gone)], after=seen)
    return s.told_draft(part(back, "refund"), locals())


def best_terms_go(s: CityStory) -> Draft:
    best = s.draw_best(max, lambda event: event.refund_percent)
    mine = s.book_each(s.customer, s.shuffled(s.main))
    seen = s.bookings(s.customer, len(mine))
    facts = [s.details(s.event_of(booking).title, part(ref, "event_id")) for booking, ref in zip(mine, seen, strict=True)]
    back = s.cancel("the booking with the best terms", seen[[s.event_of(made) for made in mine].index(best)], after=facts)
    return s.told_draft(part(back, "refund"), locals())


def refund(s: CityStory) -> Draft:
    s.draw_city(main=4, others=2)
    mine: list[Booking] = []
    while not mine or not is_alone(max, [booking.cents for booking in mine]):
        for booking in mine:
            del s.city.bookings[booking.code]
        mine = s.book_each(s.customer, s.sample(s.main, 3))
    dearest = max(mine, key=lambda booking: booking.cents)
    seen = s.bookings(s.customer, len(mine))
    back = s.cancel("the dearest booking", seen[mine.index(dearest)], after=seen)
    return s.told_draft(part(back, "refund"), {"events": [s.event_of(booking).title for booking in mine]})


# Bookings that are exchanged, handed on or added to


def _one_of_two(s: CityStory) -> tuple[Booking, Event, list[Ref], Ref]:
    """Make two bookings, draw one of them, and plan to look at both. Return it, its event, and what is seen of both and of it."""
    s.draw_city(main=3)
    mine = s.book_each(s.customer, s.sample(s.main, 2))
    old, seen = s.choice(mine), s.bookings(s.customer, 2)
    return old, s.event_of(old), seen, seen[mine.index(old)]


def more_seats(s: CityStory) -> Draft:
    """Cancel, and book more seats on the same date, which stands in the old booking only."""
    old, event, seen, booking = _one_of_two(s)
    seats = old.seats + s.integer(1, 3)
    gone = s.cancel(f"the old booking for {event.title}", booking, after=seen)
    return s.told_draft(s.book(event.title, s.hold_like(event.title, booking, seats, after=[gone])), locals())


def other_event(s: CityStory) -> Draft:
    s.draw_city(main=4)
    *before, new = s.sample(s.main, 3)
    mine = s.book_each(s.customer, before)
    old = s.choice(mine)
    title, seen = s.event_of(old).title, s.bookings(s.customer, len(mine))
    booking = seen[mine.index(old)]
    event_id = s.search_words(new.title)
    gone = s.cancel(f"the booking for {title}", booking, after=seen)
    arguments = {"event_id": event_id, "date": part(booking, "date"), "seats": part(booking, "seats")}
    held = s.call(f"Hold as many seats for {new.title} on the same date.", "hold_seats", arguments, after=[gone])
    return s.told_draft(s.book(new.title, held), locals())


def cheaper_date(s: CityStory) -> Draft:
    seats = s.integer(3, 9)
    best = s.draw_best(min, lambda date: total(s.main[0], date, seats), of=lambda: s.dates[1:])
    event, (old_date, *later) = s.main[0], s.dates
    s.book_each(s.customer, s.main[1:2])
    s.city.add_booking(s.customer, event, old_date, seats)
    seen = s.bookings(s.customer, 2)
    event_id, as_many = part(seen[1], "event_id"), part(seen[1], "seats")
    prices = [s.quote(event.title, event_id, date, as_many) for date in later]
    gone = s.cancel(f"the old booking for {event.title}", seen[1], after=[*seen, *prices])
    return s.told_draft(s.hold_and_book(event.title, event_id, best, as_many, after=[gone]), locals())


def handed_on(s: CityStory) -> Draft:
    """Another customer takes the same seats: event, date and number stand in the old booking."""
    _, event, seen, booking = _one_of_two(s)
    giver, taker = s.customer, s.city.customers[2]
    gone = s.cancel(f"the booking of {giver} for {event.title}", booking, after=seen)
    held = s.hold_like(f"{taker} at {event.title}", booking, part(booking, "seats"), after=[gone])
    return s.told_draft(s.book(f"{taker} at {event.title}", held, taker), locals())


def further_seats(s: CityStory) -> Draft:
    first, event, seen, booking = _one_of_two(s)
    seats = s.integer(2, 9)
    return s.told_draft(s.book(event.title, s.hold_like(event.title, booking, seats, after=seen)), locals())


def other_date(s: CityStory) -> Draft:
    """Cancel, and book as many seats on another date: the number of seats stands in the old booking only."""
    s.draw_city(main=3)
    event, date, new = s.choice(s.main), s.dates[0], s.choice(s.dates[1:])
    held = [(event, date)] + [(other, s.choice(s.dates)) for other in s.main if other is not event]
    mine = [s.city.add_booking(s.customer, *pair, s.integer(2, 9)) for pair in s.shuffled(held)]
    seen = s.bookings(s.customer, len(mine))
    booking = next(ref for ref, made in zip(seen, mine, strict=True) if made.event_id == event.id)
    s.cancel(f"the old booking for {event.title}", booking, after=seen)
    code = s.hold_and_book(event.title, part(booking, "event_id"), new, part(booking, "seats"), after=seen)
    return s.told_draft(code, locals())


def freed_seats(s: CityStory) -> Draft:
    """A sold-out show: what one customer gives back, another one takes. The order of the calls decides."""
    s.draw_city(main=3)
    giver, taker = s.customer, s.city.customers[2]
    event, date, back = s.choice(s.main), s.choice(s.dates), s.integer(4, 9)
    seats = s.integer(3, back)
    s.book_each(giver, [s.choice([other for other in s.main if other is not event])])
    s.city.add_booking(giver, event, date, back)
    s.few_left(event, date, seats)
    seen = s.bookings(giver, 2)
    gone = s.cancel(f"the booking of {giver} for {event.title}", seen[1], after=seen)
    what, event_id = f"{taker} at {event.title}", part(seen[1], "event_id")
    return s.told_draft(s.hold_and_book(what, event_id, date, seats, after=[gone], name=taker), locals())


# Sold out


def second_date(s: CityStory) -> Draft:
    s.draw_city(main=4)
    event, seats, order, refused = s.choice(s.main), s.integer(4, 9), s.shuffled(s.dates), s.integer(1, 2)
    for date in order[:refused]:
        s.few_left(event, date, seats)
    event_id = part(s.search(), "events", s.main.index(event), "event_id")
    failed = list[Ref]()
    for date in order[:refused]:
        failed.append(s.hold(event.title, event_id, date, seats, after=failed[-1:], fails=True))
    return s.told_draft(s.hold_and_book(event.title, event_id, order[refused], seats, after=failed[-1:]), locals())


def another_event(s: CityStory) -> Draft:
    seats = s.integer(4, 8)
    best = s.draw_best(min, lambda event: total(event, s.dates[0], seats), others=2, of=lambda: s.main[1:])
    favourite, *others = s.main
    first, second, _ = s.dates
    for date in (first, second):
        s.few_left(favourite, date, seats)
    refs = s.search_all()
    early = s.hold(favourite.title, refs[0], first, seats, fails=True)
    late = s.hold(favourite.title, refs[0], second, seats, after=[early], fails=True)
    quotes = [s.quote(event.title, ref, first, seats, after=[late]) for event, ref in zip(others, refs[1:], strict=True)]
    code = s.hold_and_book("the cheaper of the others", refs[s.main.index(best)], first, seats, after=quotes)
    return s.told_draft(code, locals())


def sold_out(s: CityStory) -> Draft:
    """Both dates are refused, and a third one, on which there are seats, is not asked for."""
    s.draw_city(main=3)
    event, seats, (first, second, free) = s.choice(s.main), s.integer(5, 9), s.shuffled(s.dates)
    for date in (first, second):
        s.few_left(event, date, seats)
    event_id = part(s.search(), "events", s.main.index(event), "event_id")
    refused = s.hold(event.title, event_id, first, seats, fails=True)
    s.hold(event.title, event_id, second, seats, after=[refused], fails=True)
    return s.told_draft(None, locals())


# Questions


def cheapest_date(s: CityStory) -> Draft:
    seats = s.integer(3, 9)
    best = s.draw_best(min, lambda date: total(s.main[0], date, seats), of=lambda: s.dates)
    event = s.main[0]
    event_id = s.search_words(event.title)
    prices = [part(s.quote(event.title, event_id, date, seats), "total") for date in s.dates]
    return s.told_draft(prices[s.dates.index(best)], locals())


def group_discount(s: CityStory) -> Draft:
    """The discount that a group gets stands in the price alone."""
    s.draw_city(main=3)
    event, date = s.choice(s.main), s.choice(s.dates)
    seats = event.group_from + s.integer(0, 2)
    price = s.quote(event.title, s.search_words(event.title), date, seats)
    return s.told_draft(part(price, "discount_percent"), locals())


def terms_in_a_language(s: CityStory) -> Draft:
    s.draw_city(main=5, others=2)
    best = s.choice(s.main)
    best.language = "Dutch"
    facts = s.each(s.details, s.search_all())
    return s.told_draft(part(facts[s.main.index(best)], "refund_percent"), locals())


def age_at_the_longer_one(s: CityStory) -> Draft:
    district = s.choice(DISTRICTS)

    def both() -> list[Event]:
        return [event for event in s.events if VENUES[event.venue] == district]

    s.draw_city(main=4, others=3, where=lambda: len({event.minutes for event in both()}) == len(both()) == 2)
    found = s.search_district(district)
    facts = [s.details(event.title, part(found, "events", i, "event_id")) for i, event in enumerate(both())]
    return s.told_draft(part(max(facts, key=lambda read: s.seen(read)["minutes"]), "min_age"), locals())


def price_of_the_emptiest(s: CityStory) -> Draft:
    seats, day = s.integer(2, 9), s.integer(0, 2)
    best = s.draw_best(max, lambda event: event.shows[s.dates[day]].left, main=4)
    date, refs = s.dates[day], s.search_all()
    seen = s.each(s.seats_left, refs, date)
    price = s.quote("the event with most seats left", refs[s.main.index(best)], date, seats, after=seen)
    return s.told_draft(part(price, "total"), locals())


def longest_of_a_name(s: CityStory) -> Draft:
    """Several titles share a word; the category is not told."""

    def alike() -> list[Event]:
        return [event for event in s.events if s.events[0].title.split()[0] in event.title.split()]

    s.draw_city(main=3, others=3, where=lambda: len(alike()) in (3, 4) and is_alone(max, [e.minutes for e in alike()]))
    word = s.events[0].title.split()[0]
    found = s.call(f"Search the programme for titles with {word}.", "search_events", {"text": word})
    facts = [s.details(event.title, part(found, "events", i, "event_id")) for i, event in enumerate(alike())]
    return s.told_draft(max((part(read, "minutes") for read in facts), key=s.seen), locals())


def paid_for_a_date(s: CityStory) -> Draft:
    s.draw_city(main=3)
    mine = [s.city.add_booking(s.customer, s.choice(s.main), date, s.integer(2, 9)) for date in s.shuffled(s.dates)]
    booking = s.choice(mine)
    seen = s.bookings(s.customer, len(mine))
    return s.told_draft(part(seen[mine.index(booking)], "paid"), locals())


def length_of_the_largest_booking(s: CityStory) -> Draft:
    s.draw_city(main=4, others=2)
    counts = s.sample(range(2, 10), 4)
    for event, seats in zip(s.shuffled(s.main), counts, strict=True):
        s.city.add_booking(s.customer, event, s.choice(s.dates), seats)
    seen, count = s.bookings(s.customer, 4), len(counts)
    largest = max(seen, key=lambda read: s.seen(read)["seats"])
    goal = "Read the details of the event with most seats booked."
    facts = s.call(goal, "event_details", {"event_id": part(largest, "event_id")}, after=seen)
    return s.told_draft(part(facts, "minutes"), locals())


def not_on_that_date(s: CityStory) -> Draft:
    """The event is on, but not on the date."""
    s.draw_city(main=3, others=3)
    event = s.choice([event for event in s.events if event not in s.main])
    (date,) = (date for date in s.dates if date not in event.shows)
    seats = s.integer(2, 9)
    s.quote(event.title, s.search_words(event.title), date, seats, fails=True)
    return s.told_draft(None, locals())


def unknown_code(s: CityStory) -> Draft:
    """No booking has the code."""
    s.draw_city(main=3)
    event = s.choice(s.main)
    code = f"{event.series}-{s.integer(900, 999)}"
    s.call(f"Look at booking {code}.", "booking_details", {"booking_code": code}, fails=True)
    return s.told_draft(None, locals())
