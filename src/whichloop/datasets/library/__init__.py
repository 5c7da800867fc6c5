"""Questions over 1,536 invented documents with full-text search: two to five hops, comparisons, sums, lists, silent records."""

from __future__ import annotations

from functools import cache, partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import StatelessEnvironment, Task
from .shelves import DISTRACTORS, TOOLS, open_shelves
from .tasks import TEMPLATES, UNANSWERABLE

COLLECTION_DIGEST = "30aa1038c20fc4475a7919eeede21d1edf6556f8caba6ec995ebe660c00db74c"
"""What `collection().digest` is: written down, so that a suite can be listed without drawing the collection."""


@cache
def _environment() -> StatelessEnvironment:
    return StatelessEnvironment(TOOLS.bound_to(open_shelves()))


def _open(task: Task) -> StatelessEnvironment:
    """Return the one environment of all trials: nothing in the library changes."""
    return _environment()


SOURCE = Source(
    "library",
    "1",
    partial(generate, "library", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    shared=COLLECTION_DIGEST,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
