"""Stories of new bookings in which seats, dates, terms or other people's bookings decide what is booked."""

from __future__ import annotations

from ..generating import Draft, Draw, draw_new, part
from .programme import (
    AMOUNTS,
    EventScript,
    aside,
    draw_programme,
    earlier_booking,
    one_is_least,
    one_is_most,
    programme_where,
    ticket,
    total,
    who,
)
from .service import VENUES

# Which date


def earliest_with_room(draw: Draw) -> Draft:
    """The dates are looked at in turn, and the first ones have too few seats."""
    programme = draw_programme(draw, main=3)
    event, seats, name = draw.choice(programme.main), draw.integer(4, 9), programme.customer
    full = draw.integer(1, 2)
    for date in programme.dates[:full]:
        event.shows[date].left = draw.integer(0, seats - 1)
    best = programme.dates[full]
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    seen = [script.seats_left(event, event_ref, date) for date in programme.dates[: full + 1]]
    code = script.hold_and_book(event.title, event_ref, best, seats, name, after=seen)
    booking = ticket(event, best, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} seats for {event.title} are wanted on the earliest date that has room for all of them; "
        f"it is on from {programme.dates[0]} to {programme.dates[-1]}.",
        f"Book {AMOUNTS[seats]} seats for {event.title} as early as possible: it is shown on {', '.join(programme.dates)}, and "
        "the party must not be split.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the code of the booking?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def booked_on_the_cheapest_date(draw: Draw) -> Draft:
    """Three prices of one event, then a booking."""
    seats = draw.integer(3, 9)
    programme = programme_where(draw, lambda p: one_is_least([total(p.main[0], date, seats) for date in p.dates]), main=3)
    event, name = programme.main[0], programme.customer
    best = min(programme.dates, key=lambda date: total(event, date, seats))
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    prices = [script.quote(event.title, event_ref, date, seats) for date in programme.dates]
    code = script.hold_and_book(event.title, event_ref, best, seats, name, after=prices)
    booking = ticket(event, best, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people are free on all of {', '.join(programme.dates)} and would see {event.title} on "
        "whichever of these dates is cheapest.",
        f"Please book {AMOUNTS[seats]} seats for {event.title} on the cheapest of its dates, which are "
        f"{', '.join(programme.dates)}.",
    )
    question = (who(draw, name), wish, aside(draw), "Under what code is it booked?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def split_party(draw: Draw) -> Draft:
    """One event, two dates, two bookings of one customer."""
    programme = draw_programme(draw, main=3)
    event, name = draw.choice(programme.main), programme.customer
    dates = sorted(draw.sample(programme.dates, 2))
    counts = draw.sample(range(2, 10), 2)
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    codes = []
    for date, seats in zip(dates, counts, strict=True):
        what = f"the {AMOUNTS[seats]} who go to {event.title}"
        codes.append(script.hold_and_book(what, event_ref, date, seats, name))
    rows = [ticket(event, date, seats, name) for date, seats in zip(dates, counts, strict=True)]
    wish = draw.pick(
        f"Not everybody can come to {event.title} on the same evening: {AMOUNTS[counts[0]]} come on {dates[0]} and "
        f"{AMOUNTS[counts[1]]} on {dates[1]}.",
        f"For {event.title}, book {AMOUNTS[counts[0]]} seats on {dates[0]} and {AMOUNTS[counts[1]]} more on {dates[1]}.",
    )
    question = (who(draw, name), wish, aside(draw), "What are the codes of the two bookings?")
    return programme.draft(script, question, codes, [row[0] for row in rows], booked=rows)


# Which event


def two_events(draw: Draw) -> Draft:
    """Two events of one category, found by one search."""
    programme = draw_programme(draw, main=4, others=2)
    name, seats = programme.customer, draw.integer(2, 9)
    wanted = list(zip(draw.sample(programme.main, 2), draw.sample(programme.dates, 2), strict=True))
    script = EventScript()
    page = script.search(programme.category)
    codes = []
    for event, date in wanted:
        event_ref = part(page, "events", programme.main.index(event), "event_id")
        codes.append(script.hold_and_book(event.title, event_ref, date, seats, name))
    rows = [ticket(event, date, seats, name) for event, date in wanted]
    (first, early), (second, late) = wanted
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} friends have chosen two {programme.category} events: {first.title} on {early} and "
        f"{second.title} on {late}.",
        f"Two {programme.category} events for {AMOUNTS[seats]} people: {first.title} on {early}, and {second.title} on {late}.",
    )
    question = (who(draw, name), wish, aside(draw), "What are the codes of the two bookings?")
    return programme.draft(script, question, codes, [row[0] for row in rows], booked=rows)


def in_a_district(draw: Draw) -> Draft:
    """A category and a district leave one event."""
    district = draw.choice(list(dict.fromkeys(VENUES.values())))
    programme = programme_where(draw, lambda p: [VENUES[event.venue] for event in p.main].count(district) == 1, main=4)
    (event,) = (event for event in programme.main if VENUES[event.venue] == district)
    date, seats, name = draw.choice(programme.dates), draw.integer(2, 9), programme.customer
    script = EventScript()
    event_ref = part(script.search_district(district, programme.category), "events", 0, "event_id")
    what = f"the {programme.category} event of the district"
    code = script.hold_and_book(what, event_ref, date, seats, name)
    booking = ticket(event, date, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people who do not want to leave {district} would like to see the {programme.category} "
        f"event there on {date}.",
        f"Book {AMOUNTS[seats]} seats on {date} for the only {programme.category} event in the {district} district.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the booking code?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def best_terms(draw: Draw) -> Draft:
    """The share that is paid back on cancelling decides."""
    programme = programme_where(draw, lambda p: one_is_most([event.refund_percent for event in p.main]), main=3)
    best = max(programme.main, key=lambda event: event.refund_percent)
    date, seats, name = draw.choice(programme.dates), draw.integer(2, 9), programme.customer
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, event_refs, strict=True)]
    what = "the event with the best terms"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=facts)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people may fall ill before {date}: book the {programme.category} event that pays back the "
        "largest share of the price on cancelling.",
        f"Whichever {programme.category} event on {date} gives back the highest percentage on cancelling is the right one for "
        f"this party of {AMOUNTS[seats]}.",
    )
    question = (who(draw, name), wish, aside(draw), "Give the booking code.")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def shortest_with_room(draw: Draw) -> Draft:
    """Length and free seats of each event count, and the shortest one is full."""
    programme = programme_where(draw, lambda p: len({event.minutes for event in p.main}) == len(p.main), main=3)
    shortest, best, _ = sorted(programme.main, key=lambda event: event.minutes)
    date, seats, name = draw.choice(programme.dates), draw.integer(4, 9), programme.customer
    shortest.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = []
    for event, ref in zip(programme.main, event_refs, strict=True):
        facts += [script.details(event, ref), script.seats_left(event, ref, date)]
    what = "the shortest event with room"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=facts)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people, some of them tired, look for the shortest {programme.category} event on {date} "
        "that still has seats for them all.",
        f"Of those {programme.category} events that can still seat {AMOUNTS[seats]} people on {date}, book the shortest.",
    )
    question = (who(draw, name), wish, aside(draw), "What code does the booking have?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def largest_discount(draw: Draw) -> Draft:
    """The discount for the group, not the price, decides."""
    seats, day = draw.integer(6, 9), draw.integer(0, 2)
    programme = programme_where(
        draw,
        lambda p: one_is_most([event.group_percent if seats >= event.group_from else 0 for event in p.main]),
        main=3,
    )
    date, name = programme.dates[day], programme.customer
    best = max(programme.main, key=lambda event: event.group_percent if seats >= event.group_from else 0)
    script = EventScript()
    event_refs = script.search_all(programme)
    prices = [script.quote(event.title, ref, date, seats) for event, ref in zip(programme.main, event_refs, strict=True)]
    what = "the event with the largest discount"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=prices)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"A club of {AMOUNTS[seats]} insists on the {programme.category} event that gives a group of its size the largest "
        f"discount in percent, on {date}.",
        f"On {date} {AMOUNTS[seats]} people go to a {programme.category} event: the one with the highest percentage off for them, "
        "whatever the price.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the booking code?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def cheaper_of_two(draw: Draw) -> Draft:
    """Two events are named, and their prices decide."""
    seats, day = draw.integer(2, 9), draw.integer(0, 2)
    programme = programme_where(draw, lambda p: len({total(event, p.dates[day], seats) for event in p.main}) == 2, main=2, others=4)
    date, name = programme.dates[day], programme.customer
    both = draw.shuffled(programme.main)
    best = min(both, key=lambda event: total(event, date, seats))
    script = EventScript()
    event_refs = [part(script.search_words(event.title), "events", 0, "event_id") for event in both]
    prices = [script.quote(event.title, ref, date, seats) for event, ref in zip(both, event_refs, strict=True)]
    what = "the cheaper of the two"
    code = script.hold_and_book(what, event_refs[both.index(best)], date, seats, name, after=prices)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"{both[0].title} or {both[1].title}, on {date}: {AMOUNTS[seats]} people cannot agree, so let the lower price decide.",
        f"Compare what {AMOUNTS[seats]} seats cost on {date} at {both[0].title} and at {both[1].title}, and book the cheaper one.",
    )
    question = (who(draw, name), wish, aside(draw), "Under which code is it booked?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


# What to do where seats are lacking


def second_choice(draw: Draw) -> Draft:
    """The first event has too few seats, and another one is named for that case."""
    programme = draw_programme(draw, main=3)
    seats, date, name = draw.integer(4, 9), draw.choice(programme.dates), programme.customer
    first, second = draw.sample(programme.main, 2)
    first.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    event_refs = [part(script.search_words(event.title), "events", 0, "event_id") for event in (first, second)]
    refused = script.hold_refused(first.title, event_refs[0], date, seats)
    code = script.hold_and_book(second.title, event_refs[1], date, seats, name, after=[refused])
    booking = ticket(second, date, seats, name)
    wish = draw.pick(
        f"On {date}, {AMOUNTS[seats]} people would most like to see {first.title}; if there are not enough seats, {second.title} "
        "will do.",
        f"Book {AMOUNTS[seats]} seats for {first.title} on {date}, or for {second.title} on the same date if that is impossible.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the code of what was booked?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def smaller_party(draw: Draw) -> Draft:
    """There are too few seats for all, and enough for some."""
    programme = draw_programme(draw, main=3)
    event, date, name = draw.choice(programme.main), draw.choice(programme.dates), programme.customer
    seats = draw.integer(6, 9)
    fewer = draw.integer(2, seats - 2)
    event.shows[date].left = draw.integer(fewer, seats - 1)
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    refused = script.hold_refused(f"all at {event.title}", event_ref, date, seats)
    what = f"fewer people at {event.title}"
    code = script.hold_and_book(what, event_ref, date, fewer, name, after=[refused])
    booking = ticket(event, date, fewer, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} seats for {event.title} on {date} would be best; if so many cannot be had, the children "
        f"stay at home and {AMOUNTS[fewer]} will do.",
        f"Try to book {AMOUNTS[seats]} seats for {event.title} on {date}. If that fails, book exactly {AMOUNTS[fewer]}.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the booking code?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


# Other people's bookings


def join_friends(draw: Draw) -> Draft:
    """The date stands in a friend's booking only."""
    programme = draw_programme(draw, main=4)
    name, friend = programme.customer, programme.city.customers[1]
    before = [booking for booking in programme.city.bookings.values() if booking.name == friend]
    event = draw_new([programme.city.events[booking.event_id] for booking in before], lambda: draw.choice(programme.main))
    third = draw_new([event, *(programme.city.events[booking.event_id] for booking in before)], lambda: draw.choice(programme.main))
    theirs = [
        *before,
        *(
            earlier_booking(programme, friend, other, draw.choice(programme.dates), draw.integer(2, 9))
            for other in draw.shuffled([event, third])
        ),
    ]
    booked = next(booking for booking in theirs if booking.event_id == event.id)
    seats = draw.integer(2, 9)
    script = EventScript()
    seen = script.bookings(friend, len(theirs))
    held = script.hold_like(event.title, seen[theirs.index(booked)], seats, after=seen)
    code = script.book(event.title, held, name)
    made = ticket(event, booked.date, seats, name)
    wish = draw.pick(
        f"{friend} has seats for {event.title}; on the same evening {name} would like to have {AMOUNTS[seats]} seats there, too.",
        f"{name} wants {AMOUNTS[seats]} seats for {event.title}, on the evening for which {friend} has booked.",
    )
    question = (wish, aside(draw), f"Which code does the booking of {name} get?")
    return programme.draft(script, question, code, made[0], booked=[made])
