"""Stories that ask and book nothing: about prices, terms and seats of the programme, and about what is booked already."""

from __future__ import annotations

from ..generating import Draft, Draw, part, plain_number
from .programme import (
    AMOUNTS,
    EventScript,
    aside,
    draw_programme,
    earlier_booking,
    listing,
    one_is_least,
    one_is_most,
    programme_where,
    total,
    who,
)
from .service import VENUES, Event

NOTHING_YET = "Nothing is to be booked yet."

# The programme


def cheapest_date(draw: Draw) -> Draft:
    """One event costs something else on each date."""
    seats = draw.integer(3, 9)
    programme = programme_where(draw, lambda p: one_is_least([total(p.main[0], date, seats) for date in p.dates]), main=3)
    event = programme.main[0]
    best = min(programme.dates, key=lambda date: total(event, date, seats))
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    prices = [script.quote(event.title, event_ref, date, seats) for date in programme.dates]
    answer = part(prices[programme.dates.index(best)], "total")
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people want to see {event.title} and do not mind which of its dates it is "
        f"({', '.join(programme.dates)}), so long as it is the cheapest one.",
        f"{event.title} is on three times, on {listing(programme.dates)}, and a party of {AMOUNTS[seats]} can come on any date.",
    )
    ask = "How many dollars do they pay in all if they take the cheapest date? Do not book."
    return programme.draft(
        script, (who(draw, programme.customer), wish, aside(draw), ask), answer, plain_number(total(event, best, seats))
    )


def group_discount(draw: Draw) -> Draft:
    """The discount that a group gets stands in the price alone."""
    programme = draw_programme(draw, main=3)
    event, date = draw.choice(programme.main), draw.choice(programme.dates)
    seats = event.group_from + draw.integer(0, 2)
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    price = script.quote(event.title, event_ref, date, seats)
    wish = draw.pick(
        f"A group of {AMOUNTS[seats]} is thinking of {event.title} on {date}.",
        f"{AMOUNTS[seats].capitalize()} colleagues may go to {event.title} on {date} together.",
        f"They would be {AMOUNTS[seats]} at {event.title} on {date}.",
    )
    ask = f"What discount, in percent, does a group of this size get there? {NOTHING_YET}"
    question = (who(draw, programme.customer), wish, aside(draw), ask)
    return programme.draft(script, question, part(price, "discount_percent"), event.group_percent)


def terms_in_a_language(draw: Draw) -> Draft:
    """Only one event of a category is in the language, and its terms are asked for."""
    programme = draw_programme(draw, main=5, others=2)
    best = draw.choice(programme.main)
    best.language = "Dutch"
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, event_refs, strict=True)]
    answer = part(facts[programme.main.index(best)], "refund_percent")
    wish = draw.pick(
        f"A visitor from Utrecht would like a {programme.category} event in Dutch, but may have to cancel.",
        f"There is said to be a {programme.category} event in Dutch; the guests are not sure that they can come.",
    )
    ask = f"What percentage of the price is paid back there on cancelling? {NOTHING_YET}"
    return programme.draft(script, (who(draw, programme.customer), wish, aside(draw), ask), answer, best.refund_percent)


def age_at_the_longer_one(draw: Draw) -> Draft:
    """A district has two events, and their lengths decide which one is meant."""

    def in_district(events: list[Event], district: str) -> list[Event]:
        return [event for event in events if VENUES[event.venue] == district]

    district = draw.choice(list(dict.fromkeys(VENUES.values())))
    programme = programme_where(
        draw,
        lambda p: (
            len(two := in_district(list(p.city.events.values()), district)) == 2 and one_is_most([event.minutes for event in two])
        ),
        main=4,
        others=3,
    )
    both = in_district(list(programme.city.events.values()), district)
    longer = max(both, key=lambda event: event.minutes)
    script = EventScript()
    results = script.search_district(district)
    facts = [script.details(event, part(results, "events", i, "event_id")) for i, event in enumerate(both)]
    wish = draw.pick(
        f"In the {district} district two events are on, and the longer one is of interest.",
        f"Someone who lives in {district} would like to see the longer of the two events there.",
    )
    ask = f"From what age are people let in to that event? {NOTHING_YET}"
    question = (who(draw, programme.customer), wish, aside(draw), ask)
    return programme.draft(script, question, part(facts[both.index(longer)], "min_age"), longer.min_age)


def price_of_the_emptiest(draw: Draw) -> Draft:
    """The seats left of all events of a category on one date, then one price."""
    seats, day = draw.integer(2, 9), draw.integer(0, 2)
    programme = programme_where(draw, lambda p: one_is_most([event.shows[p.dates[day]].left for event in p.main]), main=4)
    date = programme.dates[day]
    best = max(programme.main, key=lambda event: event.shows[date].left)
    script = EventScript()
    event_refs = script.search_all(programme)
    seen = [script.seats_left(event, ref, date) for event, ref in zip(programme.main, event_refs, strict=True)]
    price = script.quote("the event with most seats left", event_refs[programme.main.index(best)], date, seats, after=seen)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people who like plenty of room want a {programme.category} event on {date}: "
        "the one with the most seats left.",
        f"For {AMOUNTS[seats]} people on {date}, which {programme.category} event has the most free seats?",
    )
    ask = f"How many dollars would the {AMOUNTS[seats]} seats cost there in all? {NOTHING_YET}"
    question = (who(draw, programme.customer), wish, aside(draw), ask)
    return programme.draft(script, question, part(price, "total"), plain_number(total(best, date, seats)))


def longest_of_a_name(draw: Draw) -> Draft:
    """Several titles share a word; the category is not told."""

    def sharing(events: list[Event]) -> list[Event]:
        word = events[0].title.split()[0]
        return [event for event in events if word in event.title.split()]

    programme = programme_where(
        draw,
        lambda p: len(alike := sharing(list(p.city.events.values()))) in (3, 4) and one_is_most([event.minutes for event in alike]),
        main=3,
        others=3,
    )
    alike = sharing(list(programme.city.events.values()))
    word = alike[0].title.split()[0]
    longest = max(alike, key=lambda event: event.minutes)
    script = EventScript()
    results = script.search_words(word)
    facts = [script.details(event, part(results, "events", i, "event_id")) for i, event in enumerate(alike)]
    wish = draw.pick(
        f'All that is remembered of a title is the word "{word}", and that it was the longest of those with this word.',
        f'Several events have "{word}" in their title; the longest of them is meant.',
    )
    ask = f"How many minutes does it last? {NOTHING_YET}"
    question = (who(draw, programme.customer), wish, aside(draw), ask)
    return programme.draft(script, question, part(facts[alike.index(longest)], "minutes"), longest.minutes)


# What is booked already


def paid_for_a_date(draw: Draw) -> Draft:
    """A customer's bookings lie on different dates."""
    programme = draw_programme(draw, main=3)
    name = programme.customer
    mine = [
        earlier_booking(programme, name, draw.choice(programme.main), date, draw.integer(2, 9))
        for date in draw.shuffled(programme.dates)
    ]
    booking = draw.choice(mine)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    wish = draw.pick(
        f"The accounts are being done, and the receipt for {booking.date} is missing.",
        f"The seats for {booking.date} were booked weeks ago, and nobody remembers the price.",
    )
    ask = "How many dollars were paid for that evening?"
    paid = plain_number(total(programme.city.events[booking.event_id], booking.date, booking.seats))
    return programme.draft(script, (who(draw, name), wish, aside(draw), ask), part(seen[mine.index(booking)], "paid"), paid)


def length_of_the_largest_booking(draw: Draw) -> Draft:
    """The seats of a customer's bookings decide, and the event's details answer."""
    programme = draw_programme(draw, main=4, others=2)
    name = programme.customer
    counts = draw.sample(range(2, 10), 4)
    mine = [
        earlier_booking(programme, name, event, draw.choice(programme.dates), seats)
        for event, seats in zip(draw.shuffled(programme.main), counts, strict=True)
    ]
    largest = max(mine, key=lambda booking: booking.seats)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    goal = "Read the details of the event with most seats booked."
    facts = script.call(goal, "event_details", {"event_id": part(seen[mine.index(largest)], "event_id")}, after=seen)
    wish = draw.pick(
        f"Of the {AMOUNTS[len(mine)]} bookings, it is the one for most people that a coach has to be ordered for.",
        f"There are {AMOUNTS[len(mine)]} bookings, and the largest party needs a ride home.",
    )
    ask = "How many minutes does the event of that booking last?"
    minutes = programme.city.events[largest.event_id].minutes
    return programme.draft(script, (who(draw, name), wish, aside(draw), ask), part(facts, "minutes"), minutes)


# Questions without an answer


def not_on_that_date(draw: Draw) -> Draft:
    """The event is on, but not on the date."""
    programme = draw_programme(draw, main=3, others=3)
    event = draw.choice([event for event in programme.city.events.values() if event not in programme.main])
    (date,) = (date for date in programme.dates if date not in event.shows)
    seats = draw.integer(2, 9)
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    script.quote_refused(event.title, event_ref, date, seats)
    wish = draw.pick(
        f"The price of {AMOUNTS[seats]} seats for {event.title} on {date} is asked for, and no other date will do.",
        f"What would {AMOUNTS[seats]} seats for {event.title} cost on {date}, and on that date only?",
    )
    ask = f"How many dollars is it in all? {NOTHING_YET}"
    return programme.draft(script, (who(draw, programme.customer), wish, aside(draw), ask), None, None)


def unknown_code(draw: Draw) -> Draft:
    """No booking has the code."""
    programme = draw_programme(draw, main=3)
    event = draw.choice(programme.main)
    code = f"{event.series}-{draw.integer(900, 999)}"
    script = EventScript()
    script.call(f"Look at booking {code}.", "booking_details", {"booking_code": code}, fails=True)
    wish = draw.pick(
        f"On an old slip of paper stands the booking code {code}.",
        f"A guest says that the booking code is {code}.",
    )
    ask = "How many dollars were paid for that booking?"
    return programme.draft(script, (who(draw, programme.customer), wish, aside(draw), ask), None, None)
