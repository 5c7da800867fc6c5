"""Questions over 1,536 invented documents with full-text search: two to five hops, comparisons, sums, lists, silent records."""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from .shelves import DISTRACTORS
from .stories import TEMPLATES, UNANSWERABLE, open_library

COLLECTION_DIGEST = "30aa1038c20fc4475a7919eeede21d1edf6556f8caba6ec995ebe660c00db74c"
"""What `collection().digest` is: written down, so that a suite can be listed without drawing the collection."""


SOURCE = Source(
    "library",
    "1",
    partial(generate, "library", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    open_library,
    shared=COLLECTION_DIGEST,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
)
SUITE = load = SOURCE.suite
