"""Stories of new bookings, and of questions before one. What each asks for stands under its name in `wording.toml`."""

from __future__ import annotations

from ..generating import Draft, draw_new, part
from .programme import CityStory, is_alone, total
from .service import DISTRICTS, VENUES, cost


def one_evening(s: CityStory) -> Draft:
    s.draw_city(main=4)
    event, date, seats = s.choice(s.main), s.choice(s.dates), s.integer(2, 9)
    event_id = part(s.search(), "events", s.main.index(event), "event_id")
    return s.told_draft(s.hold_and_book(f"the {s.category} event that is wanted", event_id, date, seats), locals())


def cheapest(s: CityStory) -> Draft:
    """All events of a category, on two pages, and the price for the whole group decides."""
    seats, day = s.integer(4, 9), s.integer(0, 2)
    best = s.draw_best(min, lambda event: total(event, s.dates[day], seats), main=5, others=2)
    date, refs = s.dates[day], s.search_all()
    prices, what = s.each(s.quote, refs, date, seats), f"the cheapest of the {s.category} events"
    return s.told_draft(s.hold_and_book(what, refs[s.main.index(best)], date, seats, after=prices), locals())


def longest_within_budget(s: CityStory) -> Draft:
    seats, day = s.integer(2, 7), s.integer(0, 2)

    def costs() -> list[int]:
        return sorted(total(event, s.dates[day], seats) for event in s.main)

    s.draw_city(main=3, others=3, where=lambda: is_alone(max, [e.minutes for e in s.main]) and costs()[2] - costs()[1] > 600)
    date, budget = s.dates[day], costs()[1] // 100 + s.integer(1, 5)
    best = max((event for event in s.main if total(event, date, seats) <= budget * 100), key=lambda event: event.minutes)
    refs, facts = s.search_all(), []
    for event, ref in zip(s.main, refs, strict=True):
        facts += [s.details(event.title, ref), s.quote(event.title, ref, date, seats)]
    code = s.hold_and_book("the longest event within the budget", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


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
    facts = s.each(s.details, refs)
    code = s.hold_and_book("the event that suits the child", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


def two_parties(s: CityStory) -> Draft:
    s.draw_city(main=3)
    other = s.choice([event for event in s.events if event.category != s.category])
    shows = (s.choice(s.main), s.choice(s.dates)), (other, s.choice(list(other.shows)))
    customers, counts = (s.customer, s.city.customers[2]), s.sample(range(2, 10), 2)
    found = [s.search_words(event.title) for event, _ in shows]
    codes, lines = [], []
    for (event, date), name, seats, event_id in zip(shows, customers, counts, found, strict=True):
        codes.append(s.hold_and_book(event.title, event_id, date, seats, name=name))
        lines.append(s.say("line", locals()))
    return s.told_draft(codes, {"opening": s.say("opening", {}), "lines": " ".join(lines)})


def emptiest_date(s: CityStory) -> Draft:
    seats = s.integer(3, 9)
    best = s.draw_best(max, lambda date: s.main[0].shows[date].left, of=lambda: s.dates)
    event = s.main[0]
    event_id = s.search_words(event.title)
    seen = [s.seats_left(event.title, event_id, date) for date in s.dates]
    price = s.quote("the date that is wanted", event_id, best, seats, after=seen)
    return s.told_draft(part(price, "total"), locals())


def price_of_the_shortest(s: CityStory) -> Draft:
    seats = s.integer(2, 9)
    best = s.draw_best(min, lambda event: event.minutes, main=5, others=2)
    date, refs = s.choice(s.dates), s.search_all()
    price = s.quote("the shortest event", refs[s.main.index(best)], date, seats, after=s.each(s.details, refs))
    return s.told_draft(part(price, "total"), locals())


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


def beyond_the_budget(s: CityStory) -> Draft:
    """Whatever is on costs more than there is."""
    seats = s.integer(3, 9)
    s.draw_city(main=4)
    date = s.choice(s.dates)
    budget = min(total(event, date, seats) for event in s.main) // 100 - s.integer(1, 8)
    s.each(s.quote, s.search_all(), date, seats)
    return s.told_draft(None, locals())


# Seats, dates, terms or other people's bookings decide what is booked


def earliest_with_room(s: CityStory) -> Draft:
    s.draw_city(main=3)
    event, seats = s.choice(s.main), s.integer(4, 9)
    full = s.integer(1, 2)
    for date in s.dates[:full]:
        s.few_left(event, date, seats)
    event_id = s.search_words(event.title)
    seen = [s.seats_left(event.title, event_id, date) for date in s.dates[: full + 1]]
    return s.told_draft(s.hold_and_book(event.title, event_id, s.dates[full], seats, after=seen), locals())


def booked_on_the_cheapest_date(s: CityStory) -> Draft:
    seats = s.integer(3, 9)
    best = s.draw_best(min, lambda date: total(s.main[0], date, seats), of=lambda: s.dates)
    event = s.main[0]
    event_id = s.search_words(event.title)
    prices = [s.quote(event.title, event_id, date, seats) for date in s.dates]
    return s.told_draft(s.hold_and_book(event.title, event_id, best, seats, after=prices), locals())


def split_party(s: CityStory) -> Draft:
    s.draw_city(main=3)
    event, chosen, counts = s.choice(s.main), sorted(s.sample(s.dates, 2)), s.sample(range(2, 10), 2)
    event_id = s.search_words(event.title)
    goals = [s.say("goal", {"seats": seats, "event": event}) for seats in counts]
    shows = zip(goals, chosen, counts, strict=True)
    codes = [s.hold_and_book(what, event_id, date, seats) for what, date, seats in shows]
    return s.told_draft(codes, {"event": event, "dates": chosen, "counts": counts})


def two_events(s: CityStory) -> Draft:
    s.draw_city(main=4, others=2)
    seats = s.integer(2, 9)
    (first, second), (early, late) = s.sample(s.main, 2), s.sample(s.dates, 2)
    page = s.search()
    ids = [part(page, "events", s.main.index(event), "event_id") for event in (first, second)]
    codes = [s.hold_and_book(*wanted, seats) for wanted in ((first.title, ids[0], early), (second.title, ids[1], late))]
    return s.told_draft(codes, locals())


def in_a_district(s: CityStory) -> Draft:
    district = s.choice(DISTRICTS)
    s.draw_city(main=4, where=lambda: [VENUES[event.venue] for event in s.main].count(district) == 1)
    date, seats = s.choice(s.dates), s.integer(2, 9)
    event_id = part(s.search_district(district, s.category), "events", 0, "event_id")
    return s.told_draft(s.hold_and_book(f"the {s.category} event of the district", event_id, date, seats), locals())


def best_terms(s: CityStory) -> Draft:
    best = s.draw_best(max, lambda event: event.refund_percent)
    date, seats, refs = s.choice(s.dates), s.integer(2, 9), s.search_all()
    facts = s.each(s.details, refs)
    code = s.hold_and_book("the event with the best terms", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


def shortest_with_room(s: CityStory) -> Draft:
    """Length and free seats of each event count, and the shortest one is full."""
    s.draw_city(main=3, where=lambda: len({event.minutes for event in s.main}) == len(s.main))
    shortest, best, _ = sorted(s.main, key=lambda event: event.minutes)
    date, seats = s.choice(s.dates), s.integer(4, 9)
    s.few_left(shortest, date, seats)
    refs, facts = s.search_all(), []
    for event, ref in zip(s.main, refs, strict=True):
        facts += [s.details(event.title, ref), s.seats_left(event.title, ref, date)]
    code = s.hold_and_book("the shortest event with room", refs[s.main.index(best)], date, seats, after=facts)
    return s.told_draft(code, locals())


def largest_discount(s: CityStory) -> Draft:
    seats, day = s.integer(6, 9), s.integer(0, 2)
    best = s.draw_best(max, lambda event: cost(event, s.dates[day], seats)[0])
    date, refs = s.dates[day], s.search_all()
    prices, what = s.each(s.quote, refs, date, seats), "the event with the largest discount"
    return s.told_draft(s.hold_and_book(what, refs[s.main.index(best)], date, seats, after=prices), locals())


def cheaper_of_two(s: CityStory) -> Draft:
    seats, day = s.integer(2, 9), s.integer(0, 2)
    best = s.draw_best(min, lambda event: total(event, s.dates[day], seats), main=2, others=4)
    date, both = s.dates[day], s.shuffled(s.main)
    refs = [s.search_words(event.title) for event in both]
    prices = [s.quote(event.title, ref, date, seats) for event, ref in zip(both, refs, strict=True)]
    code = s.hold_and_book("the cheaper of the two", refs[both.index(best)], date, seats, after=prices)
    return s.told_draft(code, locals())


def second_choice(s: CityStory) -> Draft:
    s.draw_city(main=3)
    seats, date = s.integer(4, 9), s.choice(s.dates)
    first, second = s.sample(s.main, 2)
    s.few_left(first, date, seats)
    refs = [s.search_words(event.title) for event in (first, second)]
    refused = s.hold(first.title, refs[0], date, seats, fails=True)
    return s.told_draft(s.hold_and_book(second.title, refs[1], date, seats, after=[refused]), locals())


def smaller_party(s: CityStory) -> Draft:
    s.draw_city(main=3)
    event, date, seats = s.choice(s.main), s.choice(s.dates), s.integer(6, 9)
    fewer = s.integer(2, seats - 2)
    event.shows[date].left = s.integer(fewer, seats - 1)
    event_id = s.search_words(event.title)
    refused = s.hold(f"all at {event.title}", event_id, date, seats, fails=True)
    code = s.hold_and_book(f"fewer people at {event.title}", event_id, date, fewer, after=[refused])
    return s.told_draft(code, locals())


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
