"""Every row of a design has a test that carries its id, and `docs/conformance.md` names them all.

`python -m tests.test_conformance --write` renews the lines of the page that name tests.
"""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import pytest

from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "conformance.md"

ROW = re.compile(r"^- \*\*(?P<id>[^*]+)\*\* (?P<words>.+)$")
TEST_LINE = re.compile(r"^  - \[`(?P<name>test_\w+)`\]\((?P<path>[^)]+)\)$")
WITHOUT_TEST = re.compile(r"\*No test\b[^*]*\*$")
RANGE = re.compile(r"\b(G|X|[SB]\d)-1 to \1-(\d+)")
ROW_IN_NAME = re.compile(r"(?<![A-Za-z0-9])(G|X|[SB]\d)_(\d+)(?=_|$)")
DESIGN = re.compile(r"^\| [^|]+ \| `loopbench\.loops\.(?P<module>\w+)` \| [^|]+ \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """A test function."""

    name: str
    path: Path

    @property
    def rows(self) -> set[str]:
        """The ids in its name."""
        return {f"{part}-{int(number)}" for part, number in ROW_IN_NAME.findall(self.name)}

    def belongs_to(self, row: str) -> bool:
        """By an id in its name; by `test_option_FIELD_` in `test_DESIGN.py`, or in the folder DESIGN, for the row of an option."""
        design, dot, option = row.partition(".")
        if dot:
            homes = (self.path.stem.removeprefix("test_"), self.path.parent.name)
            return design in homes and self.name.startswith(f"test_option_{option}_")
        return row in self.rows


def all_tests() -> list[Found]:
    """The test functions below `tests`, by file and in the order they stand there."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found += [Found(node.name, path) for node in functions if node.name.startswith("test_")]
    return found


def rows(page: str) -> dict[str, str]:
    """Id → words. Raises ValueError for an id that stands twice."""
    found = [(match["id"], match["words"]) for line in page.splitlines() if (match := ROW.match(line))]
    twice = [row for row, count in Counter(row for row, _ in found).items() if count > 1]
    if twice:
        raise ValueError(f"rows stand twice: {', '.join(twice)}")
    return dict(found)


def rendered(page: str, tests: Sequence[Found]) -> str:
    """The page with the lines that name tests renewed."""
    return "\n".join(_lines(page, tests)) + "\n"


def _lines(page: str, tests: Sequence[Found]) -> Iterator[str]:
    for line in page.splitlines():
        if TEST_LINE.match(line):
            continue
        yield line
        if match := ROW.match(line):
            for test in tests:
                if test.belongs_to(match["id"]):
                    yield f"  - [`{test.name}`](../{test.path.relative_to(ROOT).as_posix()})"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def tests() -> list[Found]:
    return all_tests()


def test_G_7_the_page_names_exactly_the_tests_there_are(page: str, tests: list[Found]) -> None:
    assert page == rendered(page, tests), "run: python -m tests.test_conformance --write"


def test_G_7_every_test_that_the_page_names_exists(page: str, tests: list[Found]) -> None:
    named = {(match["name"], match["path"]) for line in page.splitlines() if (match := TEST_LINE.match(line))}
    assert named
    assert named <= {(test.name, f"../{test.path.relative_to(ROOT).as_posix()}") for test in tests}


def test_G_7_every_row_has_a_test_or_says_why_not(page: str, tests: list[Found]) -> None:
    for row, words in rows(page).items():
        held = [test.name for test in tests if test.belongs_to(row)]
        assert bool(held) is not bool(WITHOUT_TEST.search(words)), f"{row}: {held or 'no test'}"


def test_G_7_every_id_of_the_table_is_a_row_and_every_row_stands_in_order(page: str) -> None:
    known = [row for row in rows(page) if "." not in row]
    table = "\n".join(line for line in page.splitlines() if line.startswith("| "))
    wanted = {f"{part}-{number}" for part, last in RANGE.findall(table) for number in range(1, int(last) + 1)}
    assert wanted == set(known)
    for earlier, later in pairwise(known):
        if earlier.partition("-")[0] == later.partition("-")[0]:
            assert int(later.partition("-")[2]) == int(earlier.partition("-")[2]) + 1


def test_G_7_every_test_with_an_id_belongs_to_a_row(page: str, tests: list[Found]) -> None:
    known = rows(page)
    for test in tests:
        assert test.rows <= known.keys(), f"{test.name} in {test.path.name}"


def test_G_7_names_of_tests_are_unique_within_their_file(tests: list[Found]) -> None:
    assert not [name for name, count in Counter((test.path, test.name) for test in tests).items() if count > 1]


def test_every_option_of_a_design_is_a_row(page: str) -> None:
    designs = [match["module"] for match in DESIGN.finditer(page)]
    assert len(designs) == 5
    expected = set()
    for module in designs:
        loop = importlib.import_module(f"loopbench.loops.{module}").LOOP
        expected |= {f"{module}.{field.name}" for field in fields(loop) if field.metadata.get("option") is not False}
    assert {row for row in rows(page) if "." in row} == expected


def test_S4_19_the_24_coverage_points_have_a_test_each(tests: list[Found]) -> None:
    numbers = [int(match[1]) for test in tests if (match := re.match(r"test_S4_19_(\d\d)_", test.name))]
    assert numbers == list(range(1, 25))


def test_a_renewed_page_keeps_what_is_written_by_hand() -> None:
    gone = "  - [`test_gone`](../tests/gone.py)\n"
    page = f"# T\n\n- **S9-1** First.\n{gone}- **S9-2** Second. *No test: a fact.*\n- **a.b** An option.\n"
    made = rendered(
        page,
        [
            Found("test_S9_1_B9_3_says_so", TESTS / "x" / "test_z.py"),
            Found("test_option_b_changes_it", TESTS / "loops" / "test_a.py"),
            Found("test_option_b_changes_it", TESTS / "loops" / "test_other.py"),
            Found("test_S9_10_is_another_row", TESTS / "test_z.py"),
        ],
    )
    assert made.splitlines() == [
        "# T",
        "",
        "- **S9-1** First.",
        "  - [`test_S9_1_B9_3_says_so`](../tests/x/test_z.py)",
        "- **S9-2** Second. *No test: a fact.*",
        "- **a.b** An option.",
        "  - [`test_option_b_changes_it`](../tests/loops/test_a.py)",
    ]
    assert rendered(made, []) == page.replace(gone, "")
    with pytest.raises(ValueError, match="S9-1"):
        rows(page + page)


if __name__ == "__main__":
    written = rendered(PAGE.read_text("utf-8"), all_tests())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written, encoding="utf-8")
    else:
        print(written, end="")
