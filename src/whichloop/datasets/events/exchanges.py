"""Stories that begin with a customer's bookings: some go, some are exchanged, enlarged, moved, cancelled or handed on; and stories
of shows that are sold out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from whichloop.datasets.generating import Draft, Draw, part, plain_number
from whichloop.protocol import Ref

from .programme import (
    AMOUNTS,
    EventScript,
    Programme,
    aside,
    draw_programme,
    earlier_booking,
    listing,
    one_is_least,
    one_is_most,
    programme_where,
    ticket,
    total,
    who,
)
from .service import Booking, Event


def _booked(programme: Programme, name: str, events: Sequence[Event]) -> list[Booking]:
    """Book each event for a customer, on any date and for any number of people."""
    draw = programme.draw
    return [earlier_booking(programme, name, event, draw.choice(programme.dates), draw.integer(2, 9)) for event in events]


def _refund(programme: Programme, booking: Booking) -> int | float:
    """Return the dollars that are paid back for a booking."""
    percent = programme.city.events[booking.event_id].refund_percent
    return plain_number(Fraction(booking.cents * percent // 100, 100))


# Bookings that go


def both_go(draw: Draw) -> Draft:
    """Two of three bookings are cancelled, and one refund is asked for."""
    programme = draw_programme(draw, main=3)
    name = programme.customer
    mine = _booked(programme, name, draw.shuffled(programme.main))
    booking_kept = draw.choice(mine)
    gone = [booking for booking in mine if booking is not booking_kept]
    script = EventScript()
    seen = script.bookings(name, len(mine))
    titles = [programme.city.events[booking.event_id].title for booking in gone]
    back = [
        script.cancel(f"the booking for {title}", seen[mine.index(b)], after=seen) for title, b in zip(titles, gone, strict=True)
    ]
    place = draw.integer(0, 1)
    wish = draw.pick(
        f"Only one of the bookings should stay: please cancel those for {titles[0]} and {titles[1]}.",
        f"{titles[0]} and {titles[1]} have to be cancelled, both of them.",
    )
    question = (who(draw, name), wish, aside(draw), f"How many dollars are paid back for {titles[place]}?")
    return programme.draft(script, question, part(back[place], "refund"), _refund(programme, gone[place]), cancelled=gone)


def given_code(draw: Draw) -> Draft:
    """The code stands in the question."""
    programme = draw_programme(draw, main=3)
    name = programme.customer
    mine = _booked(programme, name, draw.sample(programme.main, 2))
    gone = draw.choice(mine)
    script = EventScript()
    back = script.call(f"Cancel {gone.code}.", "cancel_booking", {"booking_code": gone.code})
    wish = draw.pick(
        f"The booking with the code {gone.code} is to be cancelled.",
        f"Please cancel booking {gone.code}; the party has broken up.",
        f"{gone.code} is the code of a booking that is no longer needed: cancel it.",
    )
    question = (who(draw, name), wish, aside(draw), "How many dollars are paid back?")
    return programme.draft(script, question, part(back, "refund"), _refund(programme, gone), cancelled=[gone])


def one_evening_goes(draw: Draw) -> Draft:
    """One event is booked on three dates."""
    programme = draw_programme(draw, main=3)
    event, name = draw.choice(programme.main), programme.customer
    mine = [earlier_booking(programme, name, event, date, draw.integer(2, 9)) for date in draw.shuffled(programme.dates)]
    gone = draw.choice(mine)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    back = script.cancel("the booking for that evening", seen[mine.index(gone)], after=seen)
    wish = draw.pick(
        f"{event.title} has been booked for every evening, which is too much: the seats on {gone.date} can go.",
        f"Of the three bookings for {event.title}, please cancel the one for {gone.date}.",
    )
    question = (who(draw, name), wish, aside(draw), "How many dollars are paid back?")
    return programme.draft(script, question, part(back, "refund"), _refund(programme, gone), cancelled=[gone])


def best_terms_go(draw: Draw) -> Draft:
    """The events' terms, which stand in their details, decide which booking goes."""
    programme = programme_where(draw, lambda p: one_is_most([event.refund_percent for event in p.main]), main=3)
    name = programme.customer
    mine = _booked(programme, name, draw.shuffled(programme.main))
    gone = max(mine, key=lambda booking: programme.city.events[booking.event_id].refund_percent)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    facts = [
        script.details(programme.city.events[booking.event_id], part(booking_seen, "event_id"))
        for booking, booking_seen in zip(mine, seen, strict=True)
    ]
    back = script.cancel("the booking with the best terms", seen[mine.index(gone)], after=facts)
    wish = draw.pick(
        "One of the three bookings has to go: the one whose event pays back the largest share of its price.",
        "There are three bookings, which is one too many; cancel the one whose event pays back the highest percentage.",
    )
    question = (who(draw, name), wish, aside(draw), "How many dollars come back?")
    return programme.draft(script, question, part(back, "refund"), _refund(programme, gone), cancelled=[gone])


# Bookings that are exchanged


def more_seats(draw: Draw) -> Draft:
    """Cancel, and book more seats on the same date, which stands in the old booking only."""
    programme = draw_programme(draw, main=3)
    name = programme.customer
    mine = _booked(programme, name, draw.sample(programme.main, 2))
    old = draw.choice(mine)
    event, seats = programme.city.events[old.event_id], old.seats + draw.integer(1, 3)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    old_booking = seen[mine.index(old)]
    gone = script.cancel(f"the old booking for {event.title}", old_booking, after=seen)
    code = script.book(event.title, script.hold_like(event.title, old_booking, seats, after=[gone]), name)
    booking = ticket(event, old.date, seats, name)
    wish = draw.pick(
        f"More people want to come to {event.title}: cancel the booking and make a new one for {AMOUNTS[seats]}, on the same date.",
        f"The party for {event.title} has grown to {AMOUNTS[seats]}. Please cancel its booking and book anew for that evening.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the new booking code?")
    return programme.draft(script, question, code, booking[0], booked=[booking], cancelled=[old])


def other_event(draw: Draw) -> Draft:
    """Date and number of seats of the old booking are those of the new one, for another event."""
    programme = draw_programme(draw, main=4)
    name = programme.customer
    *before, new = draw.sample(programme.main, 3)
    mine = _booked(programme, name, before)
    old = draw.choice(mine)
    title = programme.city.events[old.event_id].title
    script = EventScript()
    seen = script.bookings(name, len(mine))
    old_booking = seen[mine.index(old)]
    wanted = part(script.search_words(new.title), "events", 0, "event_id")
    gone = script.cancel(f"the booking for {title}", old_booking, after=seen)
    held = script.hold_instead(new.title, wanted, old_booking, after=[gone])
    code = script.book(new.title, held, name)
    booking = ticket(new, old.date, old.seats, name)
    wish = draw.pick(
        f"Rather than {title}, the party would like to see {new.title} that evening: cancel, and book as many seats.",
        f"Exchange the seats for {title} for the same number of seats at {new.title} on the same date.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the code of the new booking?")
    return programme.draft(script, question, code, booking[0], booked=[booking], cancelled=[old])


def cheaper_date(draw: Draw) -> Draft:
    """The number of seats stands in the booking, and the prices of the other two dates decide."""
    event_seats = draw.integer(3, 9)
    programme = programme_where(draw, lambda p: one_is_least([total(p.main[0], date, event_seats) for date in p.dates[1:]]), main=3)
    event, name, old_date = programme.main[0], programme.customer, programme.dates[0]
    other = earlier_booking(programme, name, programme.main[1], draw.choice(programme.dates), draw.integer(2, 9))
    old = earlier_booking(programme, name, event, old_date, event_seats)
    mine = [other, old]
    later = programme.dates[1:]
    best = min(later, key=lambda date: total(event, date, event_seats))
    script = EventScript()
    seen = script.bookings(name, len(mine))
    old_booking = seen[1]
    prices = [
        script.call(
            f"Get the price of as many seats for {event.title} on {date}.",
            "price_quote",
            {"event_id": part(old_booking, "event_id"), "date": date, "seats": part(old_booking, "seats")},
        )
        for date in later
    ]
    gone = script.cancel(f"the old booking for {event.title}", old_booking, after=[*seen, *prices])
    code = script.hold_and_book(event.title, part(old_booking, "event_id"), best, part(old_booking, "seats"), name, after=[gone])
    booking = ticket(event, best, event_seats, name)
    wish = draw.pick(
        f"{old_date} has become impossible. Cancel {event.title} and book as many seats for it on {later[0]} or {later[1]}, "
        "whichever costs less.",
        f"The seats for {event.title} on {old_date} are to be exchanged for as many on the cheaper of {later[0]} and {later[1]}.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the new booking code?")
    return programme.draft(script, question, code, booking[0], booked=[booking], cancelled=[old])


# Bookings that are handed on, or added to


def handed_on(draw: Draw) -> Draft:
    """Another customer takes the same seats: event, date and number stand in the old booking."""
    programme = draw_programme(draw, main=3)
    giver, taker = programme.customer, programme.city.customers[2]
    mine = _booked(programme, giver, draw.sample(programme.main, 2))
    old = draw.choice(mine)
    event = programme.city.events[old.event_id]
    script = EventScript()
    seen = script.bookings(giver, len(mine))
    old_booking = seen[mine.index(old)]
    gone = script.cancel(f"the booking of {giver} for {event.title}", old_booking, after=seen)
    held = script.hold_like(f"{taker} at {event.title}", old_booking, part(old_booking, "seats"), after=[gone])
    code = script.book(f"{taker} at {event.title}", held, taker)
    booking = ticket(event, old.date, old.seats, taker)
    wish = draw.pick(
        f"{giver} cannot go to {event.title} after all; {taker} takes over the whole booking. Cancel it, and book the same for "
        f"{taker}.",
        f"The booking of {giver} for {event.title} is to be in the name of {taker}, for the same date and as many people: cancel "
        "the old one and make a new one.",
    )
    question = (wish, aside(draw), f"Which code does the booking of {taker} get?")
    return programme.draft(script, question, code, booking[0], booked=[booking], cancelled=[old])


def further_seats(draw: Draw) -> Draft:
    """The old booking stays, and a second one is made for the same evening."""
    programme = draw_programme(draw, main=3)
    name = programme.customer
    mine = _booked(programme, name, draw.sample(programme.main, 2))
    first = draw.choice(mine)
    event, seats = programme.city.events[first.event_id], draw.integer(2, 9)
    script = EventScript()
    seen = script.bookings(name, len(mine))
    held = script.hold_like(event.title, seen[mine.index(first)], seats, after=seen)
    code = script.book(event.title, held, name)
    booking = ticket(event, first.date, seats, name)
    wish = draw.pick(
        f"Some neighbours want to come to {event.title} as well: book {AMOUNTS[seats]} further seats for the evening that is "
        "booked already.",
        f"Besides the seats for {event.title} that are booked, {AMOUNTS[seats]} more are needed on the same date; the old booking "
        "stays as it is.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the code of the second booking?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


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
    event_ref = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    failed: list[Ref] = []
    for date in order[:refused]:
        failed.append(script.hold_refused(event.title, event_ref, date, seats, after=failed[-1:]))
    code = script.hold_and_book(event.title, event_ref, order[refused], seats, name, after=failed[-1:])
    booking = ticket(event, order[refused], seats, name)
    wish = draw.pick(
        f"{AMOUNTS[seats].capitalize()} people want to see {event.title} ({programme.category}), together: best on "
        f"{order[0]}, else on {order[1]}, and if need be on {order[2]}.",
        f"Book {AMOUNTS[seats]} seats for the {programme.category} event {event.title} on {order[0]}. If there are not "
        f"enough, try {order[1]}, then {order[2]}.",
        f"For {event.title}, a {programme.category} event, {AMOUNTS[seats]} seats on one evening are needed; the dates "
        f"in order of preference are {order[0]}, {order[1]}, {order[2]}.",
    )
    question = (who(draw, name), wish, aside(draw), "Under what code are the seats booked in the end?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


def another_event(draw: Draw) -> Draft:
    """The favourite is sold out on both dates; the cheaper of two others takes its place."""
    seats = draw.integer(4, 8)
    programme = programme_where(
        draw, lambda p: one_is_least([total(event, p.dates[0], seats) for event in p.main[1:]]), main=3, others=2
    )
    favourite, *others = programme.main
    first, second, _ = programme.dates
    name = programme.customer
    for date in (first, second):
        favourite.shows[date].left = draw.integer(0, seats - 1)
    best = min(others, key=lambda event: total(event, first, seats))
    script = EventScript()
    event_refs = script.search_all(programme)
    early = script.hold_refused(favourite.title, event_refs[0], first, seats)
    late = script.hold_refused(favourite.title, event_refs[0], second, seats, after=[early])
    pairs = zip(others, event_refs[1:], strict=True)
    prices = [script.quote(event.title, ref, first, seats, after=[late]) for event, ref in pairs]
    what = "the cheaper of the others"
    code = script.hold_and_book(what, event_refs[programme.main.index(best)], first, seats, name, after=prices)
    booking = ticket(best, first, seats, name)
    wish = draw.pick(
        f"{favourite.title} is the dream of a party of {AMOUNTS[seats]}, on {first} or, failing that, on {second}. If both "
        f"are sold out, let it be whichever other {programme.category} event is cheapest for them on {first}.",
        f"Try to get {AMOUNTS[seats]} seats for {favourite.title} on {first}, then on {second}. Without success book the "
        f"cheapest of the other {programme.category} events on {first} instead.",
    )
    question = (who(draw, name), aside(draw), wish, "What is the code of what was booked?")
    return programme.draft(script, question, code, booking[0], booked=[booking])


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
    old_booking = seen[mine.index(old)]
    script.cancel(f"the old booking for {event.title}", old_booking, after=seen)
    code = script.hold_and_book(event.title, part(old_booking, "event_id"), new, part(old_booking, "seats"), name, after=seen)
    made = ticket(event, new, old.seats, name)
    wish = draw.pick(
        f"The booking for {event.title} is to be moved to {new}, for as many people: cancel the old one and make a new one.",
        f"Instead of {date}, {event.title} should be on {new}. Give back the old seats and book the same number anew.",
        f"Something has come up on {date}: please exchange the seats for {event.title} for as many on {new}.",
    )
    question = (who(draw, name), wish, aside(draw), "What is the new booking code?")
    return programme.draft(script, question, code, made[0], booked=[made], cancelled=[old])


def refund(draw: Draw) -> Draft:
    """The dearest of a customer's bookings goes, and the refund depends on the event."""
    programme = draw_programme(draw, main=4, others=2)
    name = programme.customer
    mine: list[Booking] = []
    while not mine or not one_is_most([booking.cents for booking in mine]):
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
    events = listing([programme.city.events[booking.event_id].title for booking in mine])
    back = Fraction(dearest.cents, 100) * Fraction(programme.city.events[dearest.event_id].refund_percent, 100)
    wish = draw.pick(
        f"Money is short: of {events} the booking that cost most is to be cancelled, the others stay.",
        f"Seats are booked for {events}; please cancel the most expensive booking, and only that.",
        f"{events}: the dearest of these three bookings has to go.",
        f"Three bookings, {events}, are too many; the one with the highest price shall be given back.",
    )
    question = (who(draw, name), wish, aside(draw), "How many dollars are paid back?")
    return programme.draft(script, question, part(cancelled, "refund"), plain_number(back), cancelled=[dearest])


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
    code = script.hold_and_book(f"{taker} at {event.title}", part(seen[1], "event_id"), date, seats, taker, after=[gone])
    booking = ticket(event, date, seats, taker)
    wish = draw.pick(
        f"{giver} cannot come to {event.title} on {date} and cancels. {taker} takes {AMOUNTS[seats]} of the seats that "
        "become free.",
        f"{taker} would like {AMOUNTS[seats]} seats for {event.title} on {date}, where too few are left, but {giver} gives "
        "back a booking for it.",
        f"Cancel what {giver} has booked for {event.title} on {date}; then book {AMOUNTS[seats]} seats there for {taker}.",
    )
    question = (wish, aside(draw), f"Which code does the booking of {taker} get?")
    return programme.draft(script, question, code, booking[0], booked=[booking], cancelled=[old])


# Questions without an answer


def sold_out(draw: Draw) -> Draft:
    """Both dates are refused, and a third one, on which there are seats, is not asked for."""
    programme = draw_programme(draw, main=3)
    event, seats, name = draw.choice(programme.main), draw.integer(5, 9), programme.customer
    first, second, free = draw.shuffled(programme.dates)
    for date in (first, second):
        event.shows[date].left = draw.integer(0, seats - 1)
    script = EventScript()
    event_ref = part(script.search(programme.category), "events", programme.main.index(event), "event_id")
    refused = script.hold_refused(event.title, event_ref, first, seats)
    script.hold_refused(event.title, event_ref, second, seats, after=[refused])
    wish = draw.pick(
        f"{event.title} ({programme.category}) and nothing else, {AMOUNTS[seats]} seats together, on {first}, else on "
        f"{second}; {free} is impossible.",
        f"Please book {AMOUNTS[seats]} seats for the {programme.category} event {event.title}: try {first}, then {second}, "
        "take no other date, and never split the group.",
    )
    return programme.draft(script, (who(draw, name), wish, aside(draw), "What is the booking code?"), None, None)
