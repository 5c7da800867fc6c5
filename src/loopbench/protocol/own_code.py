"""The import of code of the user's own, and what has to happen before the first one in a process."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

_PREPARATIONS: list[Callable[[], None]] = []


def before_own_code(prepare: Callable[[], None]) -> None:
    """Let `prepare` be called once, before this process imports code of the user's own for the first time."""
    _PREPARATIONS.append(prepare)


def import_own(module: str) -> ModuleType:
    """Import a module of the user's own. Raises whatever the import raises."""
    _prepare()
    return importlib.import_module(module)


def load_plugin(point: EntryPoint) -> Any:
    """Load what a plug-in offers. Raises whatever its import raises."""
    _prepare()
    return point.load()


def _prepare() -> None:
    while _PREPARATIONS:
        _PREPARATIONS.pop()()
