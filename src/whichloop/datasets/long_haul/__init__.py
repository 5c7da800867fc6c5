"""Trails of 20 to 60 calls through a harbour archive: each card names the next, and what stood early is needed at the end.

Most cards are long-winded: 300 to 900 characters of remarks stand around the two or three facts that count, with numbers and codes
that do not. What a design keeps of its history, and how much of it, decides. A world is a key and the trail's measures; cards are
drawn from them again when the environment is opened, remarks when a card is read.
"""

from __future__ import annotations

from ..story import told_suite
from .archive import NAME
from .trails import STORIES, UNANSWERABLE, TrailStory, open_archive

STEP_LIMIT = 75
"""A trail takes 60 calls at most; twice as many would let a loop that is lost read on for minutes."""
SOURCE = told_suite(
    NAME, "1", TrailStory, (STORIES, UNANSWERABLE), open_archive, distractors=frozenset({"read_old_edition"}), step_limit=STEP_LIMIT
)
SUITE = load = SOURCE.suite
