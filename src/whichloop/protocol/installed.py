"""What the installed packages offer and which versions they have, read again only where the search path has changed."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, PackageNotFoundError, entry_points, version

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
