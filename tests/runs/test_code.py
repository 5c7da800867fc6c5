"""What whichloop reads of its own code and of a user's: files of a project with their digests, built-in names, docs of fields."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.protocol.modules import names_in
from whichloop.runs.built_in import BUILT_IN, PACKAGES
from whichloop.runs.code_digests import own_file_digests, project_files, source_file

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


def test_a_file_of_tools_has_its_name_and_another_digest_once_it_changes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for factor in (2, 2, 3):
        (tmp_path / "own_tools.py").write_text(f"def double(n: int) -> int:\n    return {factor} * n\n\n\nTOOLS = [double]\n")
        monkeypatch.delitem(sys.modules, "own_tools", raising=False)
        importlib.invalidate_caches()
        importlib.import_module("own_tools")
        found.append(own_file_digests(None, "own_tools"))
    assert list(found[0]) == ["own_tools.py"]
    assert found[0] == found[1] != found[2]


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
