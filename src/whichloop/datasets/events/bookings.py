"""Stories of new bookings, and of questions before one."""

from __future__ import annotations

from fractions import Fraction

from whichloop.protocol import Ref

from ..generating import Draft, Draw, part, plain_number
from .programme import (
    AMOUNTS,
    EventScript,
    Programme,
    aside,
    draw_programme,
    one_is_least,
    one_is_most,
    programme_where,
    ticket,
    total,
    who,
)

# Booking


def one_evening(draw: Draw) -> Draft:
    """The event is known by its venue alone."""
    programme = draw_programme(draw, main=4)
    event, date, seats = draw.choice(programme.main), draw.choice(programme.dates), draw.integer(2, 9)
    script = EventScript()
    what = f"the {programme.category} event that is wanted"
    event_ref = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    code = script.hold_and_book(what, event_ref, date, seats, programme.customer)
    booking = ticket(event, date, seats, programme.customer)
    wish = draw.pick(
        f"On {date} the {programme.category} event at the {event.venue} is wanted, for {AMOUNTS[seats]} people.",
        f"Please book {AMOUNTS[seats]} seats for the {programme.category} event at the {event.venue} on {date}.",
        f"The {event.venue} has a {programme.category} event on {date}; {AMOUNTS[seats]} tickets are needed.",
    )
    question = (who(draw, programme.customer), wish, aside(draw), "Under which code is it booked?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def cheapest(draw: Draw) -> Draft:
    """All events of a category, on two pages, and the price for the whole group decides."""
    seats, day = draw.integer(4, 9), draw.integer(0, 2)
    programme = programme_where(
        draw, lambda p: one_is_least([total(event, p.dates[day], seats) for event in p.main]), main=5, others=2
    )
    date, name = programme.dates[day], programme.customer
    best = min(programme.main, key=lambda event: total(event, date, seats))
    script = EventScript()
    event_refs = script.search_all(programme)
    prices = [script.quote(event.title, ref, date, seats) for event, ref in zip(programme.main, event_refs, strict=True)]
    what = f"the cheapest of the {programme.category} events"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=prices)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} friends want to see any {programme.category} event on {date}, whichever costs "
        "the group least, discounts included.",
        f"Find the {programme.category} event that is cheapest for a group of {AMOUNTS[seats]} on {date}, with any "
        "discount for groups, and book it.",
        f"A class of {AMOUNTS[seats]} goes out on {date}: book the {programme.category} event with the lowest total price.",
    )
    question = (who(draw, name), wish, "What is the booking code?", aside(draw))
    return programme.draft(script, question, code, booking[0], booked=[booking])


def longest_within_budget(draw: Draw) -> Draft:
    """Two facts of each event count: its length and its price."""
    seats, day = draw.integer(2, 7), draw.integer(0, 2)

    def costs(p: Programme) -> list[Fraction]:
        return sorted(total(event, p.dates[day], seats) for event in p.main)

    programme = programme_where(
        draw, lambda p: one_is_most([e.minutes for e in p.main]) and costs(p)[2] - costs(p)[1] > 6, main=3, others=3
    )
    date, name = programme.dates[day], programme.customer
    budget = int(costs(programme)[1]) + draw.integer(1, 5)
    within = [event for event in programme.main if total(event, date, seats) <= budget]
    best = max(within, key=lambda event: event.minutes)
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = []
    for event, ref in zip(programme.main, event_refs, strict=True):
        facts += [script.details(event, ref), script.quote(event.title, ref, date, seats)]
    what = "the longest event within the budget"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=facts)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"There are ${budget} for {AMOUNTS[seats]} seats at a {programme.category} event on {date}, and it should last "
        "as long as the money allows.",
        f"Of the {programme.category} events on {date} book the longest that {AMOUNTS[seats]} people can see for ${budget} in all.",
        f"{AMOUNTS[seats].capitalize()} seats, {date}, {programme.category}: the longer the better, but ${budget} "
        "altogether is the limit.",
    )
    question = (who(draw, name), wish, aside(draw), "Give the code of the booking.")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def suitable_for_a_child(draw: Draw) -> Draft:
    """Language and age decide, and only the details state them."""
    programme = draw_programme(draw, main=4, others=2)
    best, date, seats = draw.choice(programme.main), draw.choice(programme.dates), draw.integer(2, 6)
    age = draw.integer(7, 13)
    best.min_age = draw.choice([limit for limit in (0, 6, 8, 10, 12) if limit <= age])
    for number, event in enumerate(other for other in programme.main if other is not best):
        if number % 2:  # right language, wrong age
            event.language, event.min_age = best.language, draw.choice((14, 16, 18))
        elif event.language == best.language:
            event.language = "Italian"
    name = programme.customer
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, event_refs, strict=True)]
    what = "the event that suits the child"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], date, seats, name, after=facts)
    booking = ticket(best, date, seats, name)
    wish = draw.pick(
        f"A {programme.category} event in {best.language} is looked for on {date}, {AMOUNTS[seats]} seats; the youngest "
        f"is {age} and must be let in.",
        f"Please book {AMOUNTS[seats]} seats on {date}: {programme.category}, in {best.language}, open to a child of {age}.",
        f"One of the {AMOUNTS[seats]} who come is {age} years old and speaks only {best.language}. They would like "
        f"to see a {programme.category} event on {date}.",
    )
    question = (who(draw, name), aside(draw), wish, "Which code does the booking get?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def two_parties(draw: Draw) -> Draft:
    """Two bookings that have nothing to do with each other."""
    programme = draw_programme(draw, main=3)
    names = (programme.city.customers[0], programme.city.customers[2])
    other = draw.choice([event for event in programme.city.events.values() if event.category != programme.category])
    wanted = ((draw.choice(programme.main), draw.choice(programme.dates)), (other, draw.choice(list(other.shows))))
    counts = draw.sample(range(2, 10), 2)
    script = EventScript()
    codes: list[Ref] = []
    rows = []
    searches = [script.search_words(event.title) for event, _ in wanted]
    for (event, date), name, seats, results in zip(wanted, names, counts, searches, strict=True):
        codes.append(script.hold_and_book(event.title, part(results, "events", 0, "event_id"), date, seats, name))
        rows.append(ticket(event, date, seats, name))
    lines = [
        draw.pick(
            f"{name} wants {AMOUNTS[seats]} seats for {event.title} on {date}.",
            f"{event.title} on {date}: {AMOUNTS[seats]} tickets for {name}.",
            f"Book {event.title} for {name} on {date}, {AMOUNTS[seats]} people.",
        )
        for (event, date), name, seats in zip(wanted, names, counts, strict=True)
    ]
    opening = draw.choice(("Two requests have come in.", "There are two orders to be filled.", "Two customers are waiting."))
    question = (opening, *lines, aside(draw), "What are the codes of the two bookings?")
    return programme.draft(script, question, codes, [row[0] for row in rows], booked=rows)


# Reading only


def emptiest_date(draw: Draw) -> Draft:
    """The date with most seats left, and what it costs then."""
    seats = draw.integer(3, 9)
    programme = programme_where(draw, lambda p: one_is_most([show.left for show in p.main[0].shows.values()]), main=3)
    event = programme.main[0]
    best = max(programme.dates, key=lambda date: event.shows[date].left)
    script = EventScript()
    event_ref = part(script.search_words(event.title), "events", 0, "event_id")
    seen = [script.seats_left(event, event_ref, date) for date in programme.dates]
    price = script.quote("the date that is wanted", event_ref, best, seats, after=seen)
    cost = plain_number(total(event, best, seats))
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} of them would go to {event.title} on whichever of {', '.join(programme.dates)} has "
        "most seats left.",
        f"On which of its dates ({', '.join(programme.dates)}) has {event.title} most seats left, and what would "
        f"{AMOUNTS[seats]} seats cost on that date?",
    )
    question = (who(draw, programme.customer), wish, aside(draw), "Nothing is to be booked yet: how many dollars is it in all?")
    return programme.draft(script, question, part(price, "total"), cost)


def price_of_the_shortest(draw: Draw) -> Draft:
    """The details of all events of a category, then one price."""
    seats = draw.integer(2, 9)
    programme = programme_where(draw, lambda p: one_is_least([event.minutes for event in p.main]), main=5, others=2)
    date = draw.choice(programme.dates)
    best = min(programme.main, key=lambda event: event.minutes)
    script = EventScript()
    event_refs = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, event_refs, strict=True)]
    price = script.quote("the shortest event", event_refs[programme.main.index(best)], date, seats, after=facts)
    wish = draw.pick(
        f"Of all {programme.category} events the shortest is wanted, on {date}, for {AMOUNTS[seats]}.",
        f"Small children are coming along, so it must be the {programme.category} event that takes least time, "
        f"on {date}: {AMOUNTS[seats]} seats.",
    )
    ask = "How many dollars would that be with any discount? Do not book."
    return programme.draft(
        script,
        (who(draw, programme.customer), wish, aside(draw), ask),
        part(price, "total"),
        plain_number(total(best, date, seats)),
    )


# Questions without an answer


def not_on_the_programme(draw: Draw) -> Draft:
    """There are events whose titles are nearly right."""
    programme = draw_programme(draw, main=4)
    like = draw.choice(programme.main)
    titles = {event.title for event in programme.city.events.values()}
    place, style, _ = like.title.split()
    title = next(candidate for other in ("Marathon", "Brunch") if (candidate := f"{place} {style} {other}") not in titles)
    seats, date = draw.integer(2, 9), draw.choice(programme.dates)
    script = EventScript()
    script.search_words(title)
    script.search(programme.category)
    wish = draw.pick(
        f"What do {AMOUNTS[seats]} seats for the {programme.category} event {title} cost in all on {date}?",
        f"{AMOUNTS[seats].capitalize()} people ask for the price of {title}, a {programme.category} event, on {date}.",
    )
    ask = "It must be this very event and none of a similar name; how many dollars is it?"
    return programme.draft(script, (who(draw, programme.customer), wish, aside(draw), ask), None, None)


def beyond_the_budget(draw: Draw) -> Draft:
    """Whatever is on costs more than there is."""
    seats = draw.integer(3, 9)
    programme = draw_programme(draw, main=4)
    date = draw.choice(programme.dates)
    budget = int(min(total(event, date, seats) for event in programme.main)) - draw.integer(1, 8)
    script = EventScript()
    event_refs = script.search_all(programme)
    for event, ref in zip(programme.main, event_refs, strict=True):
        script.quote(event.title, ref, date, seats)
    wish = draw.pick(
        f"Book any {programme.category} event on {date} that {AMOUNTS[seats]} people can see for at most ${budget} in all; "
        "if there is none, book nothing.",
        f"With ${budget} altogether and not a cent more, {AMOUNTS[seats]} seats at some "
        f"{programme.category} event on {date} "
        "are wanted.",
    )
    return programme.draft(script, (who(draw, programme.customer), wish, aside(draw), "What is the booking code?"), None, None)
