"""Errands in a town: two to six calls of a task need nothing of each other, and none may be lost or made twice.

Whoever makes them at once has to keep them apart: what was bought, sent, paid and brought back is judged in the end, and so is the
money that is left, which is counted after all of it. `town.py` draws a town and holds the tools, `stories.py` tells the stories.
"""

from __future__ import annotations

from ..story import told_suite
from .stories import STORIES, UNANSWERABLE, Errands, open_town
from .town import DISTRACTORS

SOURCE = told_suite("errands", "1", Errands, (STORIES, UNANSWERABLE), open_town, distractors=DISTRACTORS)
SUITE = load = SOURCE.suite
