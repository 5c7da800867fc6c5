"""Booking city events: compare, hold, book and cancel; shows that are sold out and names that look alike.

Twelve stories over a small city's programme, drawn anew for each task, and three that have no answer. The bookings in the end are
judged as well as the answer. Whoever forgets a hold that was booked and holds again books twice; whoever books a hold again is
refused.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task
from ..worlds import WorldEnvironment
from . import bookings, changes
from .service import DISTRACTORS, TOOLS, City

TEMPLATES = (
    bookings.one_evening, bookings.cheapest, changes.second_date, changes.refund, bookings.longest_within_budget,
    changes.other_date, bookings.emptiest_date, changes.another_event, bookings.two_parties, bookings.suitable_for_a_child,
    changes.freed_seats, bookings.price_of_the_shortest,
)  # fmt: skip
UNANSWERABLE = (changes.sold_out, bookings.not_on_the_programme, bookings.beyond_the_budget)


def _open(task: Task) -> WorldEnvironment[City]:
    city = City.of(task.world)
    return WorldEnvironment(TOOLS.over(city), city, City.state)


SOURCE = Source(
    "events",
    "1",
    partial(generate, "events", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
