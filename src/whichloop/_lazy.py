"""Public names that load on first use (PEP 562)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from whichloop._extras import is_installed, needed_by


def stub_homes(init: str) -> dict[str, list[str]]:
    """Return module → names, as the stub beside an `__init__.py` imports them for type checkers."""
    homes: dict[str, list[str]] = {}
    for module, name in re.findall(r"^from (\S+) import (\w+)", Path(init).with_suffix(".pyi").read_text("utf-8"), re.MULTILINE):
        homes.setdefault(module, []).append(name)
    return homes


def lazy(
    package: str, homes: Mapping[str, Sequence[str]], needs: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__`, which knows `__all__`, too, and `__dir__` of a package whose names live in other modules.

    `homes`: module → names. `needs`: module → the package of an extra that it needs. Where that is not installed, `__all__` leaves
    the module's names out, so that `from package import *` gives what is there; such a name, asked for alone, says what it needs.
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def offered() -> list[str]:
        if not needs:
            return sorted(module_of)
        there = {needed: is_installed(needed) for needed in {*needs.values()}}
        return sorted(name for name, module in module_of.items() if module not in needs or there[needs[module]])

    def load(name: str) -> object:
        if name == "__all__":
            return offered()
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}"):
            return getattr(_imported(module_of[name]), name)

    def listing() -> list[str]:
        return sorted(module_of)

    return load, listing


def _imported(module: str) -> ModuleType:
    """Import a module. Raises ImportError for an AttributeError in it: `__getattr__` would say with that that a name is missing."""
    try:
        return importlib.import_module(module)
    except AttributeError as error:
        raise ImportError(f"{module} cannot be imported: {error}") from error
