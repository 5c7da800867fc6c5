"""Read-only SQL over seven invented databases: look at the schema, query, and use what came back in the next query."""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from . import one_database, stories
from .tools import DISTRACTORS, TOOLS, Connections

DATA_DIGEST = "113f216b7907fdc30d2e2337a36c1a4890ea59a89b9792d5888f30caa02a0177"
"""What `databases.all_digest()` returns: written down, so that a suite can be listed without drawing the databases."""
TEMPLATES = (
    one_database.fuel, one_database.dearest_visit, one_database.next_departure, stories.town_of_a_meter,
    one_database.same_director, one_database.peak_month, stories.around_town, one_database.two_doctors,
    one_database.last_port, stories.old_report, one_database.best_course, one_database.fullest_house,
    one_database.above_average, one_database.longest_ride, stories.town_of_a_film, one_database.colleagues_rooms,
    one_database.bill, one_database.best_insured,
)  # fmt: skip
UNANSWERABLE = (stories.unrecorded, stories.nobody, stories.before_the_records)


def _open(task: Task) -> WorldEnvironment[Connections]:
    desk = Connections()
    return WorldEnvironment(TOOLS.bound_to(desk), desk, end=Connections.close)


SOURCE = Source(
    "tables",
    "1",
    partial(generate, "tables", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    shared=DATA_DIGEST,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
