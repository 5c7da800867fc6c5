"""Questions over 1,536 invented documents with full-text search: two to five hops, comparisons, sums, lists, silent records."""

from .tasks import SOURCE, load

__all__ = ["SOURCE", "SUITE", "load"]

SUITE = load
