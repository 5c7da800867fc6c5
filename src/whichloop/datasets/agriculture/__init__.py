"""Advice for farms: weather, soil, crop tables and prices in different units, to be combined into one number.

Twelve stories over a region drawn anew for each task, and three that have no answer since a reading, a sample or a price is
missing. Branches over several fields or stations join in one calculation; nothing is changed, so the answer alone is judged.
"""

from __future__ import annotations

from ..story import told_suite
from .season import SeasonStory, open_region
from .stories import STORIES, UNANSWERABLE

SOURCE = told_suite("agriculture", "1", SeasonStory, (STORIES, UNANSWERABLE), open_region)
SUITE = load = SOURCE.suite
