"""The names of what is built in, one module each, found without importing any: a shell that completes a name waits for them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from whichloop.protocol.modules import names_in

PACKAGES = {
    "loop": ("whichloop.loops", "LOOP"),
    "framework": ("whichloop.frameworks.wiring", "solve"),
    "program": ("whichloop.programs", "LOOP"),
    "suite": ("whichloop.datasets", "SUITE"),
}
FOREIGN = ("framework", "program")
"""Kinds of loops that start what is no part of whichloop."""


def builtin_names(kind: str) -> list[str]:
    """Return the names of the built-in loops, frameworks or suites, one module each, sorted."""
    package, attribute = PACKAGES[kind]
    return list(_names_with(attribute, names_in(package), _folders(kind)))


def loop_names() -> list[str]:
    """Return the names of the designs, the frameworks and what starts programs."""
    return [name for kind in ("loop", *FOREIGN) for name in builtin_names(kind)]


def _folders(kind: str) -> tuple[str, ...]:
    """Return where the modules of a kind lie."""
    package, _ = PACKAGES[kind]
    return tuple(importlib.import_module(package).__path__)


@lru_cache(maxsize=64)  # a run asks for each name that it holds, and its answer is in hundreds of files
def _names_with(attribute: str, names: tuple[str, ...], folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of those modules in these folders that define the attribute."""
    return tuple(name for name in names if re.search(rf"^(async def )?{attribute}\b", _source_of(name, folders), re.MULTILINE))


def _source_of(name: str, folders: tuple[str, ...]) -> str:
    """Return a module's text without importing it, so that looking up one name does not load all modules."""
    for folder in folders:
        for file in (Path(folder) / f"{name}.py", Path(folder) / name / "__init__.py"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    return ""


def summary_of(kind: str, name: str) -> str:
    """Return the first line of a built-in thing's docstring, without importing it."""
    text = ast.get_docstring(ast.parse(_source_of(name, _folders(kind)))) or ""
    return text.partition("\n")[0]


def form_option(loop: str) -> tuple[str, str]:
    """Return the option by which a built-in loop has its calls written in the API's own form, `native`, and what the option is by
    default, without importing the loop; both are empty where it has no such option."""
    for name, defined in _options_of(loop).items():
        if "native" in _choices(defined.annotation) and isinstance(defined.value, ast.Constant):
            return name, str(defined.value.value)
    return "", ""


def has_option(loop: str, option: str) -> bool:
    """Whether the one module of a built-in loop defines an option of this name.

    False for any other loop, for options that a loop inherits, and for a loop that is a package, whose options stand elsewhere.
    """
    return option in _options_of(loop)


def _options_of(loop: str) -> Mapping[str, ast.AnnAssign]:
    """Return the options that the module of a built-in loop defines, without importing it; none for any other loop."""
    return options_in(_source_of(loop, _folders("loop"))) if loop in builtin_names("loop") else {}


@lru_cache(maxsize=16)
def options_in(source: str) -> Mapping[str, ast.AnnAssign]:
    """Return the annotated fields of the class that a loop's module offers as `LOOP`; none where its class stands elsewhere."""
    body = ast.parse(source).body
    offered = {
        statement.value.id
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id == "LOOP"
    }
    return {
        field.target.id: field
        for statement in body
        if isinstance(statement, ast.ClassDef) and statement.name in offered
        for field in statement.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _choices(annotation: ast.expr) -> list[object]:
    """Return the values that an annotation `Literal["one", "another"]` lists; none of any other annotation."""
    if not (isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name) and annotation.value.id == "Literal"):
        return []
    listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return [value.value for value in listed if isinstance(value, ast.Constant)]
