"""docs/tour.md: whoever joins finds every package of the source on it, and all that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "whichloop"
PAGE = (ROOT / "docs/tour.md").read_text("utf-8")
PACKAGES = [path.name for path in sorted(SOURCE.iterdir()) if (path.is_dir() and any(path.glob("*.py"))) or path.name == "datasets"]
ROWS = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
"""The packages of the table, in its order."""
NAMED = re.findall(r"(?:`|[ └├] )([\w/]+(?:/|\.py))(?:`| )", PAGE)
"""Modules and folders that the page names, below the source or, such as tests, below the root."""


def test_the_table_has_every_package_once() -> None:
    assert sorted(ROWS) == PACKAGES


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_exists(name: str) -> None:
    exists = Path.is_dir if name.endswith("/") else Path.is_file
    assert any(exists(base / name) for base in (SOURCE, ROOT, ROOT / "src"))


def test_a_reader_is_sent_here() -> None:
    assert "](docs/tour.md)" in (ROOT / "README.md").read_text("utf-8")
    assert "](docs/tour.md)" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_compare_and_the_gate_are_walked_in_ten_files_and_a_trial_in_eight() -> None:
    walks = re.findall(r"^(whichloop|one trial)(.*?)(?=^\S|^```)", PAGE, re.MULTILINE | re.DOTALL)
    steps = [len(re.findall(r"\w/\w+\.py  ", walk)) for _, walk in walks if "\n  " in walk]
    assert [count <= most for count, most in zip(steps, (10, 8, 10), strict=True)] == [True] * 3
