"""Plans whose calls lead to another answer than the expected one: told after a run, without a call for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.running import ran as run_of
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.experiments.compare.results import Results, results
from whichloop.protocol import Plan, PlannedCall, Query, Ref

HERE = __name__
STOCK = {"lamp": 25, "chair": 4, "desk": 3}
MADE: list[str] = []
"""Items that were counted, in turn."""
EXPECTED: dict[str, Any] = {}
"""Item → the expected answer, where it is not what the plan leads to."""


def stock(item: str) -> int:
    """How many of an item are in stock."""
    MADE.append(item)
    return STOCK[item]


def _task(item: str) -> Task:
    calls = (PlannedCall("other", "stock", {"item": "desk"}, "count the desks"),) if item != "desk" else ()
    plan = Plan((*calls, PlannedCall("n", "stock", {"item": item}, f"count the {item}s")), Ref("n"))
    return Task(f"shop-{item}", Query(f"How many {item}s are there?"), EXPECTED.get(item, STOCK[item]), "numeric", plan=plan)


def load() -> Suite:
    return Suite("shop", "1", tuple(map(_task, STOCK)), lambda task: StatelessEnvironment([stock]))


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Results]:
    """Runs the suite with other expected answers."""

    def begin(expected: dict[str, Any], profile: str = "clean", traces: str = "all") -> Results:
        monkeypatch.setattr(f"{HERE}.EXPECTED", expected)
        settings: dict[str, Any] = {"loops": ("bare", "finish"), "suite": f"{HERE}:load", "profiles": (profile,)}
        folder = run_of(tmp_path, **settings, traces=traces).folder
        made = len(MADE)
        found = results(folder)
        assert len(MADE) == made, "reading results makes no call"
        return found

    return begin


def told(found: Results) -> list[str]:
    return [each.text for each in found.comparison.caveats if each.code == "plans mislead"]


def test_a_plan_that_leads_elsewhere_is_named_and_a_run_most_of_whose_plans_do_is_invalid(ran: Callable[..., Results]) -> None:
    found = ran({"chair": 5})
    example = "shop-chair: step 2, stock, '4', expected 5"
    assert told(found) == [f"plans of at least 1 of 3 tasks lead to a wrong answer, such as {example}"]
    assert not found.comparison.invalid
    found = ran({"chair": 5, "desk": 7}, profile="flaky-format")
    assert told(found)[0].startswith("plans of at least 2 of 3 tasks lead to a wrong answer")
    assert found.comparison.invalid


def test_what_is_right_is_not_accused_nor_anything_without_traces(ran: Callable[..., Results]) -> None:
    assert told(ran({})) == []
    assert told(ran({"chair": 5}, traces="none")) == []
