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
    was_enabled = gc.isenabled()  # not while tests are collected
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        if was_enabled:
            gc.enable()


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return a tree's nodes in the order of `ast.walk`, which takes twice as long. Many tests ask for them."""
    found = [tree]
    for node in found:  # which grows meanwhile
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return tuple(found)
