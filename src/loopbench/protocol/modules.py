"""Variants by file name: each module of a folder is one variant, named as its file."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module
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
