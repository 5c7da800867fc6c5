"""Variants by file name: each module of a folder is one variant, named as its file; and what installed packages offer."""

from __future__ import annotations

import os
import pkgutil
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoints, PackageNotFoundError, entry_points, version
from types import ModuleType


def names_in(package: str) -> tuple[str, ...]:
    """Return the names of a package's modules, sorted, without importing them; a leading underscore marks a helper."""
    return _names(tuple(import_module(package).__path__))


def module_in(package: str, name: str) -> ModuleType:
    """Return one of these modules, imported."""
    return import_module(f"{package}.{name}")


@lru_cache(maxsize=64)  # scorers are named once per trial
def _names(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(item.name for item in pkgutil.iter_modules(path) if not item.name.startswith("_")))


Places = tuple[tuple[str, int, int], ...]
"""The folders of the search path, each with its number and the time of its last change: a package that comes or goes changes it."""


def plugins_of(group: str) -> EntryPoints:
    """Return the entry points of a group, of all installed packages."""
    return _entry_points(group, _places())


def package_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    return _version(package, _places())


def _places() -> Places:
    return tuple(_place(entry) for entry in sys.path)


def _place(entry: str) -> tuple[str, int, int]:
    try:
        status = os.stat(entry or ".")
    except OSError:
        return entry, 0, 0
    return entry, status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=16)  # a run asks for each loop that it names, and reads hundreds of files each time
def _entry_points(group: str, places: Places) -> EntryPoints:
    return entry_points(group=group)


@lru_cache(maxsize=64)  # every manifest holds some versions
def _version(package: str, places: Places) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
