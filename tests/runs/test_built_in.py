"""The table of what is built in names every module that offers something, as its docstring begins."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from whichloop.protocol.modules import names_in
from whichloop.runs.built_in import BUILT_IN, PACKAGES


@pytest.mark.parametrize("kind", PACKAGES)
def test_the_table_is_what_the_modules_say(kind: str) -> None:
    package, attribute = PACKAGES[kind]
    found = {}
    for name in names_in(package):
        (folder,) = import_module(package).__path__
        files = [file for file in (Path(folder) / f"{name}.py", Path(folder) / name / "__init__.py") if file.is_file()]
        tree = ast.parse(files[0].read_text(encoding="utf-8"))
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        defined += [node.id for part in tree.body for node in ast.walk(part) if isinstance(node, ast.Name)]
        if attribute in defined:
            found[name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    assert BUILT_IN[kind] == found
