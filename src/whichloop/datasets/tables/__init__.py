"""Read-only SQL over seven invented databases: look at the schema, query, and use what came back in the next query."""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from . import stories
from .tools import DISTRACTORS

DATA_DIGEST = "113f216b7907fdc30d2e2337a36c1a4890ea59a89b9792d5888f30caa02a0177"
"""What `databases.all_digest()` returns: written down, so that a suite can be listed without drawing the databases."""
TEMPLATES = (
    stories.fuel, stories.dearest_visit, stories.next_departure, stories.town_of_a_meter,
    stories.same_director, stories.peak_month, stories.around_town, stories.two_doctors,
    stories.last_port, stories.old_report, stories.best_course, stories.fullest_house,
    stories.above_average, stories.longest_ride, stories.town_of_a_film, stories.colleagues_rooms,
    stories.bill, stories.best_insured,
)  # fmt: skip
UNANSWERABLE = (stories.unrecorded, stories.nobody, stories.before_the_records)


SOURCE = Source(
    "tables",
    "1",
    partial(generate, "tables", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    stories.open_desk,
    shared=DATA_DIGEST,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
