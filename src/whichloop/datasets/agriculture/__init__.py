"""Advice for farms: weather, soil, crop tables and prices in different units, to be combined into one number.

Twelve stories over a region drawn anew for each task, and three that have no answer since a reading, a sample or a price is
missing. Branches over several fields or stations join in one calculation; nothing is changed, so the answer alone is judged.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from .season import open_region
from .stories import TEMPLATES, UNANSWERABLE

SOURCE = Source(
    "agriculture",
    "1",
    partial(generate, "agriculture", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    open_region,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
