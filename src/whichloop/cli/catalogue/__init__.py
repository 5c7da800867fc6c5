"""What can be named on the command line, with its options. Each list is a module, imported when that list is asked for."""

from __future__ import annotations

from whichloop.protocol.modules import module_in

from .entry import CatalogueEntry


def entries(what: str) -> list[CatalogueEntry]:
    """Return what can be named, with all facts; `what`: loops, suites, profiles, metrics, models or optimizers."""
    catalogue: list[CatalogueEntry] = module_in(__name__, what).entries()
    return catalogue


def outlines(what: str) -> list[CatalogueEntry]:
    """Return the same with names and summaries; facts and options may be missing, where they take long to find out."""
    listed = module_in(__name__, what)
    catalogue: list[CatalogueEntry] = getattr(listed, "outlines", listed.entries)()
    return catalogue
