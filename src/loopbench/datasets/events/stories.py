"""The stories: what people want of the booking service.

Each draws a city, shapes it so that its question has one answer, writes the plan and works the answer out from the drawn events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from loopbench.protocol import Ref

from ..generating import Draft, Draw, Template, part
from .programme import EventScript, Programme, draw_programme, earlier_booking, plain, ticket, total
from .service import Booking

_AMOUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def _programme_where(draw: Draw, fits: Callable[[Programme], bool], main: int, others: int = 3) -> Programme:
    """The first drawn one that fits."""
    while True:
        programme = draw_programme(draw, main, others)
        if fits(programme):
            return programme


def _one_is_least(values: Sequence[Fraction | int]) -> bool:
    return values.count(min(values)) == 1


def _one_is_most(values: Sequence[Fraction | int]) -> bool:
    return values.count(max(values)) == 1


def _who(draw: Draw, name: str) -> str:
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


def _aside(draw: Draw) -> str:
    """Nothing that matters."""
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


def _listing(titles: Sequence[str]) -> str:
    return f"{', '.join(titles[:-1])} and {titles[-1]}"


# Booking


def one_evening(draw: Draw) -> Draft:
    """The event is known by its venue alone."""
    programme = draw_programme(draw, main=4)
    event, date, seats = draw.choice(programme.main), draw.choice(programme.dates), draw.integer(2, 9)
    script = EventScript()
    what = f"the {programme.category} event that is wanted"
    found = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    code = script.book(what, script.hold(what, found, date, seats), programme.customer)
    made = ticket(event, date, seats, programme.customer)
    wish = draw.pick(
        f"On {date} the {programme.category} event at the {event.venue} is wanted, for {_AMOUNTS[seats]} people.",
        f"Please book {_AMOUNTS[seats]} seats for the {programme.category} event at the {event.venue} on {date}.",
        f"The {event.venue} has a {programme.category} event on {date}; {_AMOUNTS[seats]} tickets are needed.",
    )
    question = (_who(draw, programme.customer), wish, _aside(draw), "Under which code is it booked?")
    return programme.draft(script, question, code, made[0], made=[made])


def cheapest(draw: Draw) -> Draft:
    """All events of a category, on two pages, and the price for the whole group decides."""
    seats, day = draw.integer(4, 9), draw.integer(0, 2)
    programme = _programme_where(
        draw, lambda p: _one_is_least([total(event, p.dates[day], seats) for event in p.main]), main=5, others=2
    )
    date, name = programme.dates[day], programme.customer
    best = min(programme.main, key=lambda event: total(event, date, seats))
    script = EventScript()
    found = script.search_all(programme)
    prices = [script.quote(event.title, ref, date, seats) for event, ref in zip(programme.main, found, strict=True)]
    what = f"the cheapest of the {programme.category} events"
    held = script.hold(what, found[programme.main.index(best)], date, seats, after=prices)
    code = script.book(what, held, name)
    made = ticket(best, date, seats, name)
    wish = draw.pick(
        f"{_AMOUNTS[seats].capitalize()} friends want to see any {programme.category} event on {date}, whichever costs "
        "the group least, discounts included.",
        f"Find the {programme.category} event that is cheapest for a group of {_AMOUNTS[seats]} on {date}, with any "
        "discount for groups, and book it.",
        f"A class of {_AMOUNTS[seats]} goes out on {date}: book the {programme.category} event with the lowest total price.",
    )
    question = (_who(draw, name), wish, "What is the booking code?", _aside(draw))
    return programme.draft(script, question, code, made[0], made=[made])


def longest_within_budget(draw: Draw) -> Draft:
    """Two facts of each event: length and price."""
    seats, day = draw.integer(2, 7), draw.integer(0, 2)

    def costs(p: Programme) -> list[Fraction]:
        return sorted(total(event, p.dates[day], seats) for event in p.main)

    programme = _programme_where(
        draw, lambda p: _one_is_most([e.minutes for e in p.main]) and costs(p)[2] - costs(p)[1] > 6, main=3, others=3
    )
    date, name = programme.dates[day], programme.customer
    budget = int(costs(programme)[1]) + draw.integer(1, 5)
    within = [event for event in programme.main if total(event, date, seats) <= budget]
    best = max(within, key=lambda event: event.minutes)
    script = EventScript()
    found = script.search_all(programme)
    facts = []
    for event, ref in zip(programme.main, found, strict=True):
        facts += [script.details(event, ref), script.quote(event.title, ref, date, seats)]
    what = "the longest event within the budget"
    code = script.book(what, script.hold(what, found[programme.main.index(best)], date, seats, after=facts), name)
    made = ticket(best, date, seats, name)
    wish = draw.pick(
        f"There are ${budget} for {_AMOUNTS[seats]} seats at a {programme.category} event on {date}, and it should last "
        "as long as the money allows.",
        f"Of the {programme.category} events on {date} book the longest that {_AMOUNTS[seats]} people can see for ${budget} "
        "in all.",
        f"{_AMOUNTS[seats].capitalize()} seats, {date}, {programme.category}: the longer the better, but ${budget} "
        "altogether is the limit.",
    )
    question = (_who(draw, name), wish, _aside(draw), "Give the code of the booking.")
    return programme.draft(script, question, code, made[0], made=[made])


def suitable_for_a_child(draw: Draw) -> Draft:
    """Language and age decide, and stand in the details only."""
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
    found = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, found, strict=True)]
    what = "the event that suits the child"
    code = script.book(what, script.hold(what, found[programme.main.index(best)], date, seats, after=facts), name)
    made = ticket(best, date, seats, name)
    wish = draw.pick(
        f"A {programme.category} event in {best.language} is looked for on {date}, {_AMOUNTS[seats]} seats; the youngest "
        f"is {age} and must be let in.",
        f"Please book {_AMOUNTS[seats]} seats on {date}: {programme.category}, in {best.language}, open to a child of {age}.",
        f"One of the {_AMOUNTS[seats]} who come is {age} years old and speaks only {best.language}. They would like "
        f"to see a {programme.category} event on {date}.",
    )
    question = (_who(draw, name), _aside(draw), wish, "Which code does the booking get?")
    return programme.draft(script, question, code, made[0], made=[made])


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
    for (event, date), name, seats, found in zip(wanted, names, counts, searches, strict=True):
        held = script.hold(event.title, part(found, "events", 0, "event_id"), date, seats)
        codes.append(script.book(event.title, held, name))
        rows.append(ticket(event, date, seats, name))
    lines = [
        draw.pick(
            f"{name} wants {_AMOUNTS[seats]} seats for {event.title} on {date}.",
            f"{event.title} on {date}: {_AMOUNTS[seats]} tickets for {name}.",
            f"Book {event.title} for {name} on {date}, {_AMOUNTS[seats]} people.",
        )
        for (event, date), name, seats in zip(wanted, names, counts, strict=True)
    ]
    opening = draw.choice(("Two requests have come in.", "There are two orders to be filled.", "Two customers are waiting."))
    question = (opening, *lines, _aside(draw), "What are the codes of the two bookings?")
    return programme.draft(script, question, codes, [row[0] for row in rows], made=rows)


# Sold out


def second_date(draw: Draw) -> Draft:
    """The hold is refused on the first date, or on the first two."""
    programme = draw_programme(draw, main=4)
    event, seats, name = draw.choice(programme.main), draw.integer(4, 9), programme.customer
    order = draw.shuffled(programme.dates)
    refused = draw.integer(1, 2)
    for date in order[:refused]:
        event.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    found = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    failed: list[Ref] = []
    for date in order[:refused]:
        failed.append(script.hold_refused(event.title, found, date, seats, after=failed[-1:]))
    held = script.hold(event.title, found, order[refused], seats, after=failed[-1:])
    code = script.book(event.title, held, name)
    made = ticket(event, order[refused], seats, name)
    wish = draw.pick(
        f"{_AMOUNTS[seats].capitalize()} people want to see {event.title} ({programme.category}), together: best on "
        f"{order[0]}, else on {order[1]}, and if need be on {order[2]}.",
        f"Book {_AMOUNTS[seats]} seats for the {programme.category} event {event.title} on {order[0]}. If there are not "
        f"enough, try {order[1]}, then {order[2]}.",
        f"For {event.title}, a {programme.category} event, {_AMOUNTS[seats]} seats on one evening are needed; the dates "
        f"in order of preference are {order[0]}, {order[1]}, {order[2]}.",
    )
    question = (_who(draw, name), wish, _aside(draw), "Under what code are the seats booked in the end?")
    return programme.draft(script, question, code, made[0], made=[made])


def another_event(draw: Draw) -> Draft:
    """The favourite is sold out on both dates; the cheaper of two others takes its place."""
    seats = draw.integer(4, 8)
    programme = _programme_where(
        draw, lambda p: _one_is_least([total(event, p.dates[0], seats) for event in p.main[1:]]), main=3, others=2
    )
    favourite, *others = programme.main
    first, second, _ = programme.dates
    name = programme.customer
    for date in (first, second):
        favourite.shows[date].left = draw.integer(0, seats - 1)
    best = min(others, key=lambda event: total(event, first, seats))
    script = EventScript()
    found = script.search_all(programme)
    early = script.hold_refused(favourite.title, found[0], first, seats)
    late = script.hold_refused(favourite.title, found[0], second, seats, after=[early])
    pairs = zip(others, found[1:], strict=True)
    prices = [script.quote(event.title, ref, first, seats, after=[late]) for event, ref in pairs]
    what = "the cheaper of the others"
    code = script.book(what, script.hold(what, found[programme.main.index(best)], first, seats, after=prices), name)
    made = ticket(best, first, seats, name)
    wish = draw.pick(
        f"{favourite.title} is the dream of a party of {_AMOUNTS[seats]}, on {first} or, failing that, on {second}. If both "
        f"are sold out, let it be whichever other {programme.category} event is cheapest for them on {first}.",
        f"Try to get {_AMOUNTS[seats]} seats for {favourite.title} on {first}, then on {second}. Without success book the "
        f"cheapest of the other {programme.category} events on {first} instead.",
    )
    question = (_who(draw, name), _aside(draw), wish, "What is the code of what was booked?")
    return programme.draft(script, question, code, made[0], made=[made])


# Bookings that are there


def other_date(draw: Draw) -> Draft:
    """Cancel, and book as many seats on another date: the number of seats stands in the old booking only."""
    programme = draw_programme(draw, main=3)
    name, event, date = programme.customer, draw.choice(programme.main), programme.dates[0]
    new = draw.choice(programme.dates[1:])
    held_before = [(event, date)] + [(other, draw.choice(programme.dates)) for other in programme.main if other is not event]
    mine = [earlier_booking(programme, name, *pair, draw.integer(2, 9)) for pair in draw.shuffled(held_before)]
    old = next(booking for booking in mine if booking.event_id == event.id)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    found = seen[mine.index(old)]
    script.cancel(f"the old booking for {event.title}", found, after=seen)
    held = script.hold(event.title, part(found, "event_id"), new, part(found, "seats"), after=seen)
    code = script.book(event.title, held, name)
    made = ticket(event, new, old.seats, name)
    wish = draw.pick(
        f"The booking for {event.title} is to be moved to {new}, for as many people: cancel the old one and make a new one.",
        f"Instead of {date}, {event.title} should be on {new}. Give back the old seats and book the same number anew.",
        f"Something has come up on {date}: please exchange the seats for {event.title} for as many on {new}.",
    )
    question = (_who(draw, name), wish, _aside(draw), "What is the new booking code?")
    return programme.draft(script, question, code, made[0], made=[made], cancelled=[old])


def refund(draw: Draw) -> Draft:
    """The dearest of a customer's bookings goes, and the refund depends on the event."""
    programme = draw_programme(draw, main=4, others=2)
    name = programme.customer
    mine: list[Booking] = []
    while not mine or not _one_is_most([booking.cents for booking in mine]):
        for booking in mine:
            del programme.city.bookings[booking.code]
        mine = [
            earlier_booking(programme, name, event, draw.choice(programme.dates), draw.integer(2, 9))
            for event in draw.sample(programme.main, 3)
        ]
    dearest = max(mine, key=lambda booking: booking.cents)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    cancelled = script.cancel("the dearest booking", seen[mine.index(dearest)], after=seen)
    events = _listing([programme.city.events[booking.event_id].title for booking in mine])
    back = Fraction(dearest.cents, 100) * Fraction(programme.city.events[dearest.event_id].refund_percent, 100)
    wish = draw.pick(
        f"Money is short: of {events} the booking that cost most is to be cancelled, the others stay.",
        f"Seats are booked for {events}; please cancel the most expensive booking, and only that.",
        f"{events}: the dearest of these three bookings has to go.",
        f"Three bookings, {events}, are too many; the one with the highest price shall be given back.",
    )
    question = (_who(draw, name), wish, _aside(draw), "How many dollars are paid back?")
    return programme.draft(script, question, part(cancelled, "refund"), plain(back), cancelled=[dearest])


def freed_seats(draw: Draw) -> Draft:
    """A sold-out show: what one customer gives back, another one takes. The order of the calls decides."""
    programme = draw_programme(draw, main=3)
    giver, taker = programme.city.customers[0], programme.city.customers[2]
    event, date = draw.choice(programme.main), draw.choice(programme.dates)
    back = draw.integer(4, 9)
    seats = draw.integer(3, back)
    other = draw.choice([candidate for candidate in programme.main if candidate is not event])
    earlier_booking(programme, giver, other, draw.choice(programme.dates), draw.integer(2, 9))
    old = earlier_booking(programme, giver, event, date, back)
    event.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    seen = script.bookings(giver, 2)
    gone = script.cancel(f"the booking of {giver} for {event.title}", seen[1], after=seen)
    held = script.hold(f"{taker} at {event.title}", part(seen[1], "event_id"), date, seats, after=[gone])
    code = script.book(f"{taker} at {event.title}", held, taker)
    made = ticket(event, date, seats, taker)
    wish = draw.pick(
        f"{giver} cannot come to {event.title} on {date} and cancels. {taker} takes {_AMOUNTS[seats]} of the seats that "
        "become free.",
        f"{taker} would like {_AMOUNTS[seats]} seats for {event.title} on {date}, where too few are left, but {giver} gives "
        "back a booking for it.",
        f"Cancel what {giver} has booked for {event.title} on {date}; then book {_AMOUNTS[seats]} seats there for {taker}.",
    )
    question = (wish, _aside(draw), f"Which code does the booking of {taker} get?")
    return programme.draft(script, question, code, made[0], made=[made], cancelled=[old])


# Reading only


def emptiest_date(draw: Draw) -> Draft:
    """The date with most seats left, and what it costs then."""
    seats = draw.integer(3, 9)
    programme = _programme_where(draw, lambda p: _one_is_most([show.left for show in p.main[0].shows.values()]), main=3)
    event = programme.main[0]
    best = max(programme.dates, key=lambda date: event.shows[date].left)
    script = EventScript()
    found = part(script.search_words(event.title), "events", 0, "event_id")
    seen = [script.seats_left(event, found, date) for date in programme.dates]
    price = script.quote("the date that is wanted", found, best, seats, after=seen)
    cost = plain(total(event, best, seats))
    wish = draw.pick(
        f"{_AMOUNTS[seats].capitalize()} of them would go to {event.title} on whichever of {', '.join(programme.dates)} has "
        "most seats left.",
        f"On which of its dates ({', '.join(programme.dates)}) has {event.title} most seats left, and what would "
        f"{_AMOUNTS[seats]} seats cost on that date?",
    )
    question = (_who(draw, programme.customer), wish, _aside(draw), "Nothing is to be booked yet: how many dollars is it in all?")
    return programme.draft(script, question, part(price, "total"), cost)


def price_of_the_shortest(draw: Draw) -> Draft:
    """The details of all events of a category, then one price."""
    seats = draw.integer(2, 9)
    programme = _programme_where(draw, lambda p: _one_is_least([event.minutes for event in p.main]), main=5, others=2)
    date = draw.choice(programme.dates)
    best = min(programme.main, key=lambda event: event.minutes)
    script = EventScript()
    found = script.search_all(programme)
    facts = [script.details(event, ref) for event, ref in zip(programme.main, found, strict=True)]
    price = script.quote("the shortest event", found[programme.main.index(best)], date, seats, after=facts)
    wish = draw.pick(
        f"Of all {programme.category} events the shortest is wanted, on {date}, for {_AMOUNTS[seats]}.",
        f"Small children are coming along, so it must be the {programme.category} event that takes least time, "
        f"on {date}: {_AMOUNTS[seats]} seats.",
    )
    ask = "How many dollars would that be with any discount? Do not book."
    return programme.draft(
        script, (_who(draw, programme.customer), wish, _aside(draw), ask), part(price, "total"), plain(total(best, date, seats))
    )


# Questions without an answer


def sold_out(draw: Draw) -> Draft:
    """Both dates are refused, and a third one, on which there are seats, is not asked for."""
    programme = draw_programme(draw, main=3)
    event, seats, name = draw.choice(programme.main), draw.integer(5, 9), programme.customer
    first, second, free = draw.shuffled(programme.dates)
    for date in (first, second):
        event.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    found = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    refused = script.hold_refused(event.title, found, first, seats)
    script.hold_refused(event.title, found, second, seats, after=[refused])
    wish = draw.pick(
        f"{event.title} ({programme.category}) and nothing else, {_AMOUNTS[seats]} seats together, on {first}, else on "
        f"{second}; {free} is impossible.",
        f"Please book {_AMOUNTS[seats]} seats for the {programme.category} event {event.title}: try {first}, then {second}, "
        "take no other date, and never split the group.",
    )
    return programme.draft(script, (_who(draw, name), wish, _aside(draw), "What is the booking code?"), None, None)


def not_on_the_programme(draw: Draw) -> Draft:
    """There are events whose titles are nearly right."""
    programme = draw_programme(draw, main=4)
    like = draw.choice(programme.main)
    titles = {event.title for event in programme.city.events.values()}
    place, style, _ = like.title.split()
    title = next(made for other in ("Marathon", "Brunch") if (made := f"{place} {style} {other}") not in titles)
    seats, date = draw.integer(2, 9), draw.choice(programme.dates)
    script = EventScript()
    script.search_words(title)
    script.search(programme.category)
    wish = draw.pick(
        f"What do {_AMOUNTS[seats]} seats for the {programme.category} event {title} cost in all on {date}?",
        f"{_AMOUNTS[seats].capitalize()} people ask for the price of {title}, a {programme.category} event, on {date}.",
    )
    ask = "It must be this very event and none of a similar name; how many dollars is it?"
    return programme.draft(script, (_who(draw, programme.customer), wish, _aside(draw), ask), None, None)


def beyond_the_budget(draw: Draw) -> Draft:
    """Whatever is on costs more than there is."""
    seats = draw.integer(3, 9)
    programme = draw_programme(draw, main=4)
    date = draw.choice(programme.dates)
    budget = int(min(total(event, date, seats) for event in programme.main)) - draw.integer(1, 8)
    script = EventScript()
    found = script.search_all(programme)
    for event, ref in zip(programme.main, found, strict=True):
        script.quote(event.title, ref, date, seats)
    wish = draw.pick(
        f"Book any {programme.category} event on {date} that {_AMOUNTS[seats]} people can see for at most ${budget} in all; "
        "if there is none, book nothing.",
        f"With ${budget} altogether and not a cent more, {_AMOUNTS[seats]} seats at some "
        f"{programme.category} event on {date} "
        "are wanted.",
    )
    return programme.draft(script, (_who(draw, programme.customer), wish, _aside(draw), "What is the booking code?"), None, None)


ANSWERABLE: tuple[Template, ...] = (
    one_evening,
    cheapest,
    second_date,
    refund,
    longest_within_budget,
    other_date,
    emptiest_date,
    another_event,
    two_parties,
    suitable_for_a_child,
    freed_seats,
    price_of_the_shortest,
)
UNANSWERABLE: tuple[Template, ...] = (sold_out, not_on_the_programme, beyond_the_budget)
