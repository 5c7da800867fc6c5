"""What keeps the tests quick: `make fast` leaves out those that cost much, and the garbage collector what was there before."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

import pytest

from benchmarks.slow_tests import COSTLY, COSTLY_S, ROOT, costly
from loopbench.runs.gc_tuning import relaxed_gc
from tests.syntax import parsed

NAMES = COSTLY.read_text(encoding="utf-8").splitlines()
HERE = Path(__file__).relative_to(ROOT).as_posix()


def test_a_function_is_costly_by_what_all_its_cases_cost() -> None:
    tests = {"a.py::test_one[1]": COSTLY_S / 2, "a.py::test_one[x[2]]": COSTLY_S / 2, "a.py::test_two": COSTLY_S / 2}
    assert costly([], tests) == ["a.py::test_one"]


def test_files_that_were_not_run_keep_their_functions_and_those_that_are_gone_lose_them() -> None:
    before = [f"{HERE}::test_kept", "tests/gone.py::test_gone", "a.py::test_cheap_by_now"]
    assert costly(before, {"a.py::test_cheap_by_now": 0.0, "a.py::test_new": 1.0}) == ["a.py::test_new", f"{HERE}::test_kept"]


def test_the_list_is_as_it_is_written_and_nearly_all_of_it_is_there() -> None:
    """A test that got another name since is run by `make fast` until the list is written anew, which does no harm for a few."""
    assert sorted(set(NAMES)) == NAMES
    there = [name for name in NAMES if _is_there(*name.split("::"))]
    assert len(there) >= 0.9 * len(NAMES) > 0, "renew it: python benchmarks/slow_tests.py --forks auto --write"


def _is_there(file: str, *inside: str) -> bool:
    """Whether the file has a function of that name."""
    if not (ROOT / file).is_file():
        return False
    nodes = ast.walk(parsed(ROOT / file))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == inside[-1] for node in nodes)


def test_a_costly_test_is_marked_as_thorough(request: pytest.FixtureRequest) -> None:
    marked = {item.nodeid.partition("[")[0] for item in request.session.items if "thorough" in item.keywords}
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    assert collected & set(NAMES) <= marked


def test_a_run_shows_the_garbage_collector_nothing_that_was_there_before_the_tests() -> None:
    before = gc.get_freeze_count()
    with relaxed_gc():
        pass
    assert gc.get_freeze_count() > before / 2 > 10_000
