"""Variants by file name: each module of a folder is one variant, named as its file; and what installed packages offer."""

from __future__ import annotations

import pkgutil
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoints, PackageNotFoundError, entry_points, version


def names_in(package: str) -> tuple[str, ...]:
    """Return the names of a package's modules, sorted, without importing them; a leading underscore marks a helper."""
    found = pkgutil.iter_modules(import_module(package).__path__)
    return tuple(sorted(item.name for item in found if not item.name.startswith("_")))


def plugins_of(group: str) -> EntryPoints:
    """Return the entry points of a group, of all installed packages."""
    return _entry_points(group, tuple(sys.path))


@lru_cache(maxsize=16)  # it takes 20 ms, and a run asks for each loop that it names
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)


def package_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
