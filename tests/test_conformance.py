"""Every row of a design has a test that is marked with its id, and `docs/conformance.md` names the files of all.

`python -m tests.test_conformance --write` renews the page's last column.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import pytest

from tests.loops.bare.test_document import POINTS
from tests.rows import row
from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "conformance.md"

ROW = re.compile(r"^\|(?P<id>[GXSB]\d?-\d+|[a-z_]+\.[a-z_]+)\|.+\|(?P<tests>[^|]*)\|$")
WITHOUT_TEST = "no test"
NAMED = re.compile(r"\brows? ((?:[GXSB]\d?-\d+(?:, | and | to )?)+)")
ROW_ID = re.compile(r"[GXSB]\d?-\d+")
RANGE = re.compile(r"\b(G|X|[SB]\d)-1 to \1-(\d+)")
DESIGN = re.compile(r"^\|[^|]+\|`whichloop\.loops\.(?P<module>\w+)`\|[^|]+\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """A test function."""

    name: str
    path: Path
    rows: tuple[str, ...]
    """The ids that it is marked with."""


def all_tests() -> list[Found]:
    """The test functions below `tests` that may hold rows, by file and in the order they stand there."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        if "row(" in path.read_text("utf-8"):
            functions = _functions(parsed(path).body)
            found += [Found(node.name, path, tuple(_marks(node))) for node in functions if node.name.startswith("test_")]
    return found


def _functions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of a module and of its classes, where pytest looks for tests."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "row":
            yield from (ast.literal_eval(row_id) for row_id in mark.args)


def rows(page: str) -> dict[str, str]:
    """Id → what the last column says. Raises ValueError for an id that stands twice."""
    found = [(match["id"], match["tests"]) for line in page.splitlines() if (match := ROW.match(line))]
    twice = [row_id for row_id, count in Counter(row_id for row_id, _ in found).items() if count > 1]
    if twice:
        raise ValueError(f"rows stand twice: {', '.join(twice)}")
    return dict(found)


def rendered(page: str, tests: Sequence[Found]) -> str:
    """The page with its last column renewed: the files of each row's tests."""
    files = {match["id"]: "" for line in page.splitlines() if (match := ROW.match(line))}
    for row_id in files:
        paths = dict.fromkeys(test.path.relative_to(ROOT) for test in tests if row_id in test.rows)
        files[row_id] = ",".join(f"[{path.stem.removeprefix('test_')}](../{path.as_posix()})" for path in paths)
    return "".join(f"{_renewed(line, files)}\n" for line in page.splitlines())


def _renewed(line: str, files: Mapping[str, str]) -> str:
    match = ROW.match(line)
    if match is None or match["tests"].startswith(WITHOUT_TEST):
        return line
    return f"{line[: match.start('tests')]}{files[match['id']]}|"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def tests() -> list[Found]:
    return all_tests()


@row("G-7")
def test_the_page_names_exactly_the_files_of_the_tests_there_are(page: str, tests: list[Found]) -> None:
    assert page == rendered(page, tests), "run: python -m tests.test_conformance --write"


@row("G-7")
def test_every_row_has_a_test_or_says_why_not(page: str, tests: list[Found]) -> None:
    marked = {row_id for test in tests for row_id in test.rows}
    without = {row_id for row_id, said in rows(page).items() if said.startswith(WITHOUT_TEST)}
    assert marked ^ without == rows(page).keys()


@row("G-7")
def test_every_id_of_the_table_is_a_row_and_every_row_stands_in_order(page: str) -> None:
    known = [row_id for row_id in rows(page) if "." not in row_id]
    wanted = {f"{part}-{number}" for part, last in RANGE.findall(page) for number in range(1, int(last) + 1)}
    assert wanted == set(known)
    for earlier, later in pairwise(known):
        if earlier.partition("-")[0] == later.partition("-")[0]:
            assert int(later.partition("-")[2]) == int(earlier.partition("-")[2]) + 1


@row("G-7")
def test_every_id_that_a_test_is_marked_with_is_a_row(page: str, tests: list[Found]) -> None:
    known = rows(page)
    for test in tests:
        assert set(test.rows) <= known.keys(), f"{test.name} in {test.path.name}"
        assert len(set(test.rows)) == len(test.rows), f"{test.name} in {test.path.name}"


@row("G-7")
def test_every_row_that_the_sources_name_is_on_the_page_which_the_package_names(page: str) -> None:
    known = rows(page)
    assert "docs/conformance.md" in (ast.get_docstring(parsed(SOURCE / "whichloop/loops/__init__.py")) or "")
    for path in sorted(SOURCE.rglob("*.py")):
        named = {row_id for codes in NAMED.findall(path.read_text("utf-8")) for row_id in ROW_ID.findall(codes)}
        assert named <= known.keys(), f"{path}: no row {', '.join(sorted(named - known.keys()))}"


def test_every_option_of_a_design_is_a_row(page: str) -> None:
    designs = [match["module"] for match in DESIGN.finditer(page)]
    assert len(designs) == 5
    expected = set()
    for module in designs:
        loop = importlib.import_module(f"whichloop.loops.{module}").LOOP
        expected |= {f"{module}.{field.name}" for field in fields(loop) if field.metadata.get("option") is not False}
    assert {row_id for row_id in rows(page) if "." in row_id} == expected


@row("S4-19")
def test_the_24_coverage_points_have_a_test_each(tests: list[Found]) -> None:
    numbers = [int(match[1]) for test in tests if "S4-19" in test.rows and (match := re.match(r"test_(\d\d)_", test.name))]
    assert sorted([*numbers, *POINTS]) == list(range(1, 25))


if __name__ == "__main__":
    written = rendered(PAGE.read_text("utf-8"), all_tests())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written, encoding="utf-8")
    else:
        print(written, end="")
