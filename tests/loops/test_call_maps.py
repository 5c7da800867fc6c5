"""The maps of a run in the docstrings of the five designs: each function that they name stands where they say."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from whichloop.loops import bare, finish, phased, react_extract, stateless


def named_places(design: ModuleType) -> list[tuple[str, str, str]]:
    """Return the class, the method and the file of each place in a map, such as `Phased.run` (loop.py)."""
    _, _, call_map = (inspect.getdoc(design) or "").partition("Follow a run, from the top:")
    return re.findall(r"`(\w+)\.(\w+)`\s\((\w+\.py)\)", call_map)


@pytest.mark.parametrize("design", [bare, finish, phased, react_extract, stateless], ids=lambda design: design.__name__)
def test_each_function_of_a_map_stands_where_it_says(design: ModuleType) -> None:
    places = named_places(design)
    assert len(places) >= 6
    for owner, method, file in places:
        tree = ast.parse((Path(str(design.__file__)).parent / file).read_text("utf-8"))
        (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
        methods = [node.name for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert method in methods, f"{owner}.{method}, {file}"
