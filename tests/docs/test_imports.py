"""Every import from whichloop in a Python block of the pages finds what it names."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```py(?:thon)?(?: \S+)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imports(code: str) -> list[tuple[str, str]]:
    """Return module and name of each `from whichloop… import name`, and of each `whichloop.name` after `import whichloop`."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "whichloop":
            found += [(str(node.module), alias.name) for alias in node.names]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "whichloop":
            found.append(("whichloop", node.attr))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        for module, name in imports(code):
            is_there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
            assert is_there, f"{page.name}: {module} has no {name}"


def test_a_page_with_a_wrong_import_would_be_found() -> None:
    assert imports("from whichloop.experiments.gate import gone\nimport whichloop\nwhichloop.load(1)") == [
        ("whichloop.experiments.gate", "gone"),
        ("whichloop", "load"),
    ]
