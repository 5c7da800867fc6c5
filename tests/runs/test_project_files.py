"""Which files of a user's project a module is made of: what it imports there, wherever the statement stands, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.runs.code_digests import project_files, source_file

NAMES = [f"own_module_{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def nothing_of_a_project_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests of this process have imported by one of these names, from folders of theirs, is not what is meant here."""
    for name in list(sys.modules):
        if name.partition(".")[0].startswith(("own_", "mine", "other_package")):
            monkeypatch.delitem(sys.modules, name)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def found(folder: Path, name: str) -> list[str]:
    return list(project_files([source_file(folder / name)]))


@settings(max_examples=cases(12))
@given(graph=st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)), min_size=1))
def test_the_files_are_all_that_can_be_reached_by_imports(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("project")
    write(folder, {f"{name}.py": "".join(f"import {other}\n" for other in sorted(graph.get(name, ()))) for name in NAMES})
    start = next(iter(graph))
    reached, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += graph.get(name, ())
    assert found(folder, f"{start}.py") == sorted(f"{name}.py" for name in reached)


@pytest.mark.parametrize(
    ("statement", "files"),
    [
        ("from own_package.helper import tidy", ["helper"]),
        ("from .helper import tidy", ["helper"]),
        ("from . import helper", ["__init__", "helper"]),
        ("from own_package import PRICES", ["__init__"]),
        ("import own_package.helper", ["__init__", "helper"]),
        ("def later():\n    from own_package import helper", ["__init__", "helper"]),
        ("from .inner.deep import tidy", ["inner/deep"]),
        ("from .inner import deep, NAME", ["inner/__init__", "inner/deep"]),
        ("from ..elsewhere import name", []),
        ("import json, whichloop.loops.bare, pydantic, not_there", []),
        ("this is no Python", []),
    ],
)
def test_each_form_of_import(tmp_path, statement, files):
    inside = ["__init__", "helper", "inner/__init__", "inner/deep", "loops"]
    write(tmp_path, {f"own_package/{name}.py": "PRICES = NAME = 1\n" for name in inside} | {"own_package/loops.py": statement})
    assert found(tmp_path, "own_package/loops.py") == sorted(f"own_package/{name}.py" for name in [*files, "loops"])


def test_what_is_installed_is_no_project_of_its_neighbours(tmp_path):
    place = tmp_path / "site-packages"
    write(place, {"own_package/__init__.py": "", "own_package/loops.py": "import other_package\nfrom . import helper\n"})
    write(place, {"own_package/helper.py": "", "other_package.py": ""})
    assert found(place, "own_package/loops.py") == [f"own_package/{name}.py" for name in ("__init__", "helper", "loops")]
    write(tmp_path, {"mine.py": "import own_package.helper\n"})
    assert found(tmp_path, "mine.py") == ["mine.py"]
