"""Syntax trees of Python files for the tests that read sources."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file. Raises SyntaxError where it is no Python."""
    # A collection in the middle may log a lost task's traceback, which parses too: CPython 3.11 then gives SystemError.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.enable()
