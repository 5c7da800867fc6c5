"""Forms to fill in from a records system: the answer is a nested JSON object that a schema describes.

Thirteen kinds of form, from an invoice with its lines to a parts list within a parts list. Names and order of fields, enumerations
and codes differ from task to task; every value is looked up, converted or computed with tools, and one wrong leaf makes the whole
answer wrong. No task is without an answer: a schema leaves no room for "not determined". What cannot be known is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from ..generating import SNAPSHOTS, Draft, Draw, Source, Template, generate
from ..task import Task, WorldEnvironment
from .desk import Desk
from .forms import FORMS
from .records import Records, environment

NAME = "typed"
_BY_NAME: dict[str, Callable[[Desk], Draft]] = {fill.__name__: fill for fill in FORMS}


def _filled(world: Mapping[str, Any]) -> tuple[Desk, Draft]:
    """Fill a form. A task's world is a key: the records are drawn from it again when it is opened."""
    desk = Desk(Draw(NAME, world["form"], world["key"]), world["form"])
    return desk, _BY_NAME[world["form"]](desk)


def _template(fill: Callable[[Desk], Draft]) -> Template:
    @wraps(fill)
    def template(draw: Draw) -> Draft:
        world = {"form": fill.__name__, "key": draw.integer(0, 10**12)}
        return replace(_filled(world)[1], world=world)

    return template


def open_records(task: Task) -> WorldEnvironment[Records]:
    return environment(_filled(task.world)[0].records)


SOURCE = Source(
    NAME,
    "1",
    partial(generate, NAME, templates=[_template(fill) for fill in FORMS]),
    open_records,
    distractors=frozenset({"fetch_draft"}),
    snapshots=SNAPSHOTS,
)

SUITE = load = SOURCE.suite
