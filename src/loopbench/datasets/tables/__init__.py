"""Read-only SQL over seven invented databases: look at the schema, query, and use what came back in the next query."""

from .tasks import SOURCE, load

__all__ = ["SOURCE", "SUITE", "load"]

SUITE = load
