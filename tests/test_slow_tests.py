"""What keeps the tests quick: `make fast` leaves out those that cost much, and the garbage collector what was there before."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.slow_tests import COSTLY, COSTLY_S, ROOT, Cost, costly, is_there, shared_out

NAMES = COSTLY.read_text(encoding="utf-8").splitlines()
HERE = Path(__file__).relative_to(ROOT).as_posix()


def test_a_function_is_costly_by_what_all_its_cases_cost() -> None:
    tests = {"a.py::test_one[1]": COSTLY_S / 2, "a.py::test_one[x[2]]": COSTLY_S / 2, "a.py::test_two": COSTLY_S / 2}
    assert costly([], tests) == ["a.py::test_one"]


def test_what_functions_share_counts_for_each_of_them_in_equal_parts() -> None:
    """Else the one that comes first would be left out, and the next one would set the same up for itself."""
    costs = [
        Cost("a.py::test_one[1]", 1.0, 0.0, ["a.py::dear"], {"a.py::dear": 6.0}),
        Cost("a.py::test_one[2]", 1.0, 0.0, ["a.py::dear"], {}),
        Cost("a.py::test_two", 0.0, 0.0, ["a.py::dear", "::cheap"], {"::cheap": 0.0}),
        Cost("b.py::test_three", 0.5, 0.0, ["::cheap"], {}),
    ]
    cpu = {name: each for name, (each, _) in shared_out(costs).items()}
    assert cpu == {"a.py::test_one[1]": 2.5, "a.py::test_one[2]": 2.5, "a.py::test_two": 3.0, "b.py::test_three": 0.5}


def test_functions_that_were_not_run_stay_in_the_list_until_they_are_gone() -> None:
    kept = f"{HERE}::test_functions_that_were_not_run_stay_in_the_list_until_they_are_gone"
    before = [kept, f"{HERE}::test_gone", "tests/gone.py::test_gone", f"{HERE}::test_cheap_by_now"]
    assert costly(before, {f"{HERE}::test_cheap_by_now": 0.0, "a.py::test_new": 1.0}) == ["a.py::test_new", kept]


def test_the_list_is_as_it_is_written_and_nearly_all_of_it_is_there() -> None:
    """A test that got another name since is run by `make fast` until the list is written anew, which does no harm for a few."""
    assert sorted(set(NAMES)) == NAMES
    there = [name for name in NAMES if is_there(name)]
    assert len(there) >= 0.9 * len(NAMES) > 0, "renew it: python benchmarks/slow_tests.py --forks auto --write"


def test_a_costly_test_is_marked_as_thorough(request: pytest.FixtureRequest) -> None:
    marked = {item.nodeid.partition("[")[0] for item in request.session.items if "thorough" in item.keywords}
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    assert collected & set(NAMES) <= marked
