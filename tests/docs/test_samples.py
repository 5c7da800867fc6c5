"""Every sample of the docs runs, and prints what its page says."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.docs.samples import ROOT, is_run, is_shown, printed_by, samples

EACH_ALONE = True
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if any(map(is_run, samples(path.read_text("utf-8"))))]


QUICK = ("start.md", "gate.md", "why.md", "ablate.md", "outside.md", "tour.md", "reference.md")
"""Pages whose commands `make test` runs, with all that have no commands; the others are slow tests."""


def costs(page: Path) -> list[pytest.MarkDecorator]:
    in_shell = any(sample.language == "sh" for sample in samples(page.read_text("utf-8")))
    return [pytest.mark.thorough if page.name in QUICK else pytest.mark.slow] * in_shell


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [pytest.param(each, marks=costs(each), id=each.name) for each in PAGES])
def test_the_samples_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for sample, printed in printed_by(page.read_text("utf-8"), tmp_path):
        if sample.expected:
            assert is_shown(sample.expected[3], printed), f"{page.name}: {sample.text}\nprints\n{printed}"


def test_more_lines_stand_for_any() -> None:
    assert is_shown("a\n…\nd\n", "a\nb\nc\nd\n")
    assert is_shown("a\n…\n", "a\n")
    assert not is_shown("a\n…\n", "b\na\n")
    assert not is_shown("a\n", "a\nb\n")


def imports(code: str) -> list[tuple[str, str]]:
    """Return module and name of each `from whichloop… import name`, and of each `whichloop.name` after `import whichloop`."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "whichloop":
            found += [(str(node.module), alias.name) for alias in node.names]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "whichloop":
            found.append(("whichloop", node.attr))
    return found


def test_the_python_of_all_pages_compiles_and_what_it_imports_is_there() -> None:
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
    texts = [(page.name, sample) for page in pages for sample in samples(page.read_text("utf-8"))]
    code = [(page, each.text) for page, each in texts if each.language in ("py", "python")]
    named = {(page, *each) for page, text in code for each in imports(text)}
    assert len(named) > 20
    for page, module, name in named:
        is_there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        assert is_there, f"{page}: {module} has no {name}"
