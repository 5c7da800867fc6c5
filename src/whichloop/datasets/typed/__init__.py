"""Forms to fill in from a records system: the answer is a nested JSON object that a schema describes.

Thirteen kinds of form, from an invoice with its lines to a parts list within a parts list. Names and order of fields, enumerations
and codes differ from task to task; every value is looked up, converted or computed with tools, and one wrong leaf makes the whole
answer wrong. No task is without an answer: a schema leaves no room for "not determined". What cannot be known is null.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps

from ..generating import SNAPSHOTS, Draft, Draw, Source, Template, generate
from ..task import Task, WorldEnvironment
from .affairs import fixture, incident, itinerary, loan
from .desk import Desk, Filled
from .money import grant, invoice, lease, payslip
from .records import Records, environment
from .works import calibration, lab_report, manifest, parts_list, recipe

NAME = "typed"
FORMS = (
    incident, invoice, lab_report, itinerary, payslip, parts_list, lease, calibration, grant, manifest, loan, recipe, fixture,
)  # fmt: skip
_BY_NAME: dict[str, Callable[[Desk], Filled]] = {fill.__name__: fill for fill in FORMS}


def _template(fill: Callable[[Desk], Filled]) -> Template:
    """Make a template of a kind of form. A task's world is a key: the records are drawn from it again when it is opened."""

    @wraps(fill)
    def template(draw: Draw) -> Draft:
        world = {"form": fill.__name__, "key": draw.integer(0, 10**12)}
        desk = _desk(world)
        return desk.draft(world, *fill(desk))

    return template


def _desk(world: dict[str, object]) -> Desk:
    return Desk(Draw(NAME, world["form"], world["key"]))


def _open(task: Task) -> WorldEnvironment[Records]:
    world = dict(task.world)
    desk = _desk(world)
    _BY_NAME[world["form"]](desk)
    return environment(desk.records)


SOURCE = Source(
    NAME,
    "1",
    partial(generate, NAME, templates=[_template(fill) for fill in FORMS]),
    _open,
    distractors=frozenset({"fetch_draft"}),
    snapshots=SNAPSHOTS,
    templates="strata",
)

SUITE = load = SOURCE.suite
