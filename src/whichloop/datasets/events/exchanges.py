"""Stories that begin with a customer's bookings: some go, some are exchanged, enlarged or handed on."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..generating import Draft, Draw, part, plain_number
from .programme import (
    AMOUNTS,
    EventScript,
    Programme,
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
