"""The import of code of the user's own, and what has to happen before the first one in a process."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

_NOT_THEIRS = tuple(f"{Path(file).parents[1]}/" for file in (importlib.__file__, __file__))
"""Folders of Python's own modules and of ours."""
_PREPARATIONS: list[Callable[[], None]] = []


def before_own_code(prepare: Callable[[], None]) -> None:
    """Let `prepare` be called once, before this process imports code of the user's own for the first time."""
    _PREPARATIONS.append(prepare)


def import_own(module: str) -> ModuleType:
    """Import a module of the user's own. Raises whatever the import raises."""
    _prepare()
    return importlib.import_module(module)


def raised_at(error: BaseException) -> str:
    """Return the innermost line of a user's file that an exception passed, as `my_loop.py:12`; empty where it passed none."""
    at, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and "site-packages" not in file and not file.startswith(_NOT_THEIRS):
            at = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return at


def load_plugin(point: EntryPoint) -> Any:
    """Load what a plug-in offers. Raises whatever its import raises."""
    _prepare()
    return point.load()


def _prepare() -> None:
    while _PREPARATIONS:
        _PREPARATIONS.pop()()
