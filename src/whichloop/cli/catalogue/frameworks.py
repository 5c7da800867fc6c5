"""The list of agent frameworks."""

from __future__ import annotations

from whichloop.frameworks.installing import framework_class, pinned_version
from whichloop.runs.built_in import builtin_names

from .entry import CatalogueEntry, CatalogueFramework, built_in


def entries() -> list[CatalogueEntry]:
    return [_entry(name) for name in builtin_names("framework")]


def _entry(name: str) -> CatalogueFramework:
    plain = built_in("framework", name)
    try:
        installed = framework_class(name)().version
    except ValueError:
        installed = None
    return CatalogueFramework(name, plain.summary, plain.options, pinned_version(name), installed)
