"""Questions over 1,536 invented documents with full-text search: two to five hops, comparisons, sums, lists, silent records."""

from __future__ import annotations

from ..story import told_suite
from .shelves import DISTRACTORS
from .stories import STORIES, UNANSWERABLE, Trail, open_library

COLLECTION_DIGEST = "30aa1038c20fc4475a7919eeede21d1edf6556f8caba6ec995ebe660c00db74c"
"""sha256 of documents, pages and mergers: written down, so that a suite can be listed without drawing the collection."""

SOURCE = told_suite("library", "1", Trail, (STORIES, UNANSWERABLE), open_library, shared=COLLECTION_DIGEST, distractors=DISTRACTORS)
SUITE = load = SOURCE.suite
