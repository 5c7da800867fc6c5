"""The strings under the fields of a class, which are the help of flags and options, read from its module's source."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

_WITHOUT_OPTIONS = ("builtins", "pydantic.main", "typing")
"""Modules of base classes, whose own fields are no options: long ones, which take a while to read."""


@cache
def field_docs(target: type[Any]) -> Mapping[str, str]:
    """Return the string under each field of a class and its bases; every cell of an ablation asks.

    Fields whose source cannot be read have none.
    """
    return {name: doc for base in reversed(target.__mro__) for name, doc in _own_docs(base).items()}


def _own_docs(target: type[Any]) -> Mapping[str, str]:
    module = sys.modules.get(target.__module__)
    return {} if module is None or target.__module__ in _WITHOUT_OPTIONS else _docs_in(module).get(target.__qualname__, {})


@cache
def _docs_in(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Return the qualified name of each class in a module → its documented fields; nothing of a module without source."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return {}
    docs: dict[str, Mapping[str, str]] = {}
    for name, body in _classes(tree.body, ""):
        docs.setdefault(name, _docs(body))
    return docs


def _classes(body: list[ast.stmt], within: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the qualified name and the body of each class, those in functions and under conditions included."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{within}{node.name}", node.body
            yield from _classes(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node.body, f"{within}{node.name}.<locals>.")
        else:
            for part in ("body", "orelse", "handlers", "finalbody"):
                yield from _classes(getattr(node, part, []), within)


def _docs(body: list[ast.stmt]) -> dict[str, str]:
    docs, field = {}, ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            field = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            if field:
                docs[field] = inspect.cleandoc(node.value.value)
            field = ""
        else:
            field = ""
    return docs
