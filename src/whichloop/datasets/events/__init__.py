"""Booking city events: compare, hold, book and cancel; shows that are sold out and names that look alike.

Forty-one stories over a small city's programme, drawn anew for each task, and five that have no answer. The bookings in the end are
judged as well as the answer. Whoever forgets a hold that was booked and holds again books twice; whoever books a hold again is
refused.
"""

from __future__ import annotations

from ..story import told_suite
from . import bookings, exchanges
from .programme import CityStory, open_city
from .service import DISTRACTORS

STORIES = (
    bookings.one_evening, exchanges.both_go, bookings.cheapest, exchanges.cheapest_date, exchanges.second_date, bookings.best_terms,
    exchanges.refund, bookings.two_events, exchanges.more_seats, bookings.longest_within_budget, exchanges.group_discount,
    exchanges.other_date, bookings.booked_on_the_cheapest_date, exchanges.other_event, exchanges.terms_in_a_language,
    bookings.emptiest_date, bookings.earliest_with_room, exchanges.another_event, exchanges.given_code, bookings.join_friends,
    bookings.two_parties, exchanges.paid_for_a_date, bookings.shortest_with_room, exchanges.handed_on,
    bookings.suitable_for_a_child, exchanges.length_of_the_largest_booking, bookings.second_choice, exchanges.freed_seats,
    exchanges.best_terms_go, bookings.in_a_district, bookings.price_of_the_shortest, exchanges.further_seats,
    exchanges.price_of_the_emptiest, bookings.cheaper_of_two, exchanges.one_evening_goes, bookings.largest_discount,
    exchanges.age_at_the_longer_one, bookings.split_party, exchanges.cheaper_date, exchanges.longest_of_a_name,
    bookings.smaller_party,
)  # fmt: skip
UNANSWERABLE = (
    exchanges.sold_out, bookings.not_on_the_programme, exchanges.not_on_that_date, bookings.beyond_the_budget,
    exchanges.unknown_code,
)  # fmt: skip
SOURCE = told_suite("events", "2", CityStory, (STORIES, UNANSWERABLE), open_city, distractors=DISTRACTORS)
SUITE = load = SOURCE.suite
