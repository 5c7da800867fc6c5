"""Advice for farms: weather, soil, crop tables and prices in different units, to be combined into one number.

Twelve stories over a region drawn anew for each task, and three that have no answer since a reading, a sample or a price is
missing. Branches over several fields or stations join in one calculation; nothing is changed, so the answer alone is judged.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from . import one_field
from .region import TOOLS, Region

TEMPLATES = (
    one_field.degree_days, one_field.seed, one_field.fertilizer_bill, one_field.irrigation, one_field.rain_range,
    one_field.harvest_value, one_field.backup_station, one_field.better_crop, one_field.water_bill,
    one_field.calm_field, one_field.heat_margin, one_field.drier_field,
)  # fmt: skip
UNANSWERABLE = (one_field.no_readings, one_field.no_sample, one_field.not_traded)


def _open(task: Task) -> WorldEnvironment[Region]:
    region = Region.of(task.world)
    return WorldEnvironment(TOOLS.bound_to(region), region)


SOURCE = Source(
    "agriculture",
    "1",
    partial(generate, "agriculture", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
