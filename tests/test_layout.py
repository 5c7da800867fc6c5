"""The layout of the repository: the doors at the root, what no file may hold, and what may only shrink. Imports: `lint-imports`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import nodes_of, parsed
from tests.weight import COUNTS, weights

IN_ONE_FORK = "the syntax trees of the source"

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "whichloop"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SLACK = 0.99
"""Of what is allowed at most: below it, the ratchet is to be tightened."""
SEED_NAMES = frozenset({"ToolCall"})
"""Class names that a design's document fixes, and that its prompts show: `ToolCall` stands in the schema of `stateless`."""
DOORS = ("datasets", "experiments", "loops", "metrics")
MEGABYTE = 1_000_000


def below(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def tracked() -> list[Path]:
    """Files that git keeps, or would keep at the next `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("name", DOORS)
def test_the_doors_at_the_root_are_links_into_the_source(name: str) -> None:
    door = ROOT / name
    assert door.is_symlink()
    assert not Path(os.readlink(door)).is_absolute()
    assert door.resolve() == SOURCE / name


def test_a_datasets_package_elsewhere_wins_over_the_door(tmp_path: Path) -> None:
    assert not (SOURCE / "datasets" / "__init__.py").exists()
    package = tmp_path / "datasets"
    package.mkdir()
    (package / "__init__.py").write_text("load_dataset = 'elsewhere'\n")
    script = "import datasets, whichloop.datasets.task; print(datasets.load_dataset, whichloop.datasets.task.Task.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("elsewhere Task\n", "")


# Spelled in parts, so that this file names none of them either.
PARTS = (
    *("pypi org", "pythonhosted org", "npmjs org", "npmjs com", "yarnpkg com", "crates io", "rubygems org", "anaconda org"),
    *("conda io", "proxy golang org", "repo1 maven org", "docker io", "ghcr io", "quay io"),
)
HOSTS = [".".join(parts.split()) for parts in PARTS]


def test_no_file_is_large_or_names_a_package_registry() -> None:
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace").lower()
        assert path.stat().st_size <= MEGABYTE, path
        assert not [host for host in HOSTS if host in text], path


def test_a_public_class_name_stands_for_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(below(path))
    assert {name: places for name, places in homes.items() if len(places) > 1 and name not in SEED_NAMES} == {}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, without decorators."""
    for node in nodes_of(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_and_functions_are_short() -> None:
    assert [str(path) for path in (*MODULES, *TESTS) if len(path.read_text("utf-8").splitlines()) > 450] == []
    for path in (path for path in MODULES if path.parent.name not in ("cli", "api")):  # what a command takes are settings
        longest = 45 if path.is_relative_to(SOURCE / "loops") else 60  # a design's `run` is read whole
        assert [name for name, length in functions(path) if length > (longest if name == "run" else 60)] == [], path


@pytest.mark.parametrize("what", COUNTS)
def test_the_project_only_gets_lighter(what: str) -> None:
    now, most = COUNTS[what](), weights()[what].most
    assert now <= most, f"{what}: {now:,}, and {most:,} is the most"
    assert now >= SLACK * most, f"{what}: only {now:,} are left; python -m tests.weight --write keeps it so"


def test_no_message_names_a_page_that_an_installed_user_does_not_have() -> None:
    for nodes in (nodes_of(parsed(path)) for path in MODULES):
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = (str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in docs)
        assert not [text for text in texts if re.search(r"docs/[\w-]+\.md", text)]
