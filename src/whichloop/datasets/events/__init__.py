"""Booking city events: compare, hold, book and cancel; shows that are sold out and names that look alike.

Forty-one stories over a small city's programme, drawn anew for each task, and five that have no answer. The bookings in the end are
judged as well as the answer. Whoever forgets a hold that was booked and holds again books twice; whoever books a hold again is
refused.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from . import bookings, choices, exchanges, questions
from .service import DISTRACTORS, TOOLS, City

TEMPLATES = (
    bookings.one_evening, exchanges.both_go, bookings.cheapest, questions.cheapest_date, exchanges.second_date, choices.best_terms,
    exchanges.refund, choices.two_events, exchanges.more_seats, bookings.longest_within_budget, questions.group_discount,
    exchanges.other_date, choices.booked_on_the_cheapest_date, exchanges.other_event, questions.terms_in_a_language,
    bookings.emptiest_date, choices.earliest_with_room, exchanges.another_event, exchanges.given_code, choices.join_friends,
    bookings.two_parties, questions.paid_for_a_date, choices.shortest_with_room, exchanges.handed_on,
    bookings.suitable_for_a_child, questions.length_of_the_largest_booking, choices.second_choice, exchanges.freed_seats,
    exchanges.best_terms_go, choices.in_a_district, bookings.price_of_the_shortest, exchanges.further_seats,
    questions.price_of_the_emptiest, choices.cheaper_of_two, exchanges.one_evening_goes, choices.largest_discount,
    questions.age_at_the_longer_one, choices.split_party, exchanges.cheaper_date, questions.longest_of_a_name,
    choices.smaller_party,
)  # fmt: skip
UNANSWERABLE = (
    exchanges.sold_out, bookings.not_on_the_programme, questions.not_on_that_date, bookings.beyond_the_budget,
    questions.unknown_code,
)  # fmt: skip


def _open(task: Task) -> WorldEnvironment[City]:
    city = City.of(task.world)
    return WorldEnvironment(TOOLS.bound_to(city), city, City.state)


SOURCE = Source(
    "events",
    "2",
    partial(generate, "events", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
