"""The list of loops: designs, what starts programs, and frameworks."""

from __future__ import annotations

from whichloop.protocol.modules import module_in
from whichloop.runs.built_in import builtin_names, summary_of

from .entry import CatalogueEntry, CatalogueFramework, built_in, outline, plugins


def entries() -> list[CatalogueEntry]:
    frameworks: list[CatalogueEntry] = module_in(__package__, "frameworks").entries()
    designs = (built_in("loop", name) for name in builtin_names("loop"))
    programs = (built_in("program", name) for name in builtin_names("program"))
    return [*designs, *plugins("loop"), *programs, *frameworks]


def outlines() -> list[CatalogueEntry]:
    """Return the loops without importing them."""
    designs = [outline("loop", name) for name in builtin_names("loop")]
    programs = [CatalogueEntry(name, summary_of("program", name)) for name in builtin_names("program")]
    frameworks = [CatalogueFramework(name, summary_of("framework", name)) for name in builtin_names("framework")]
    return [*designs, *plugins("loop"), *programs, *frameworks]
