"""Read-only SQL over seven invented databases: look at the schema, query, and use what came back in the next query."""

from __future__ import annotations

from ..story import told_suite
from .stories import STORIES, UNANSWERABLE, TablesStory, open_desk
from .tools import DISTRACTORS

DATA_DIGEST = "113f216b7907fdc30d2e2337a36c1a4890ea59a89b9792d5888f30caa02a0177"
"""sha256 of all schemas and rows: written down, so that a suite can be listed without drawing the databases."""
SOURCE = told_suite("tables", "1", TablesStory, (STORIES, UNANSWERABLE), open_desk, shared=DATA_DIGEST, distractors=DISTRACTORS)
SUITE = load = SOURCE.suite
