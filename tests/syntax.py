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


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return a tree's nodes, as `ast.walk` finds them: that takes as long as parsing the file, and many tests ask for them."""
    return tuple(ast.walk(tree))
