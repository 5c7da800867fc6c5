"""Plans whose calls lead to another answer than the expected one: told after a run, without a call for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.running import ran as run_of
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.experiments.compare.results import Results, results
from whichloop.loops import Bare
from whichloop.protocol import Outcome, Plan, PlannedCall, Query, Ref, StopReason

HERE = __name__
STOCK = {"lamp": 25, "chair": 4, "desk": 3}
MADE: list[str] = []
"""Items that were counted, in turn."""
EXPECTED: dict[str, Any] = {}
"""Item → the expected answer, where it is not what the plan leads to."""
SCORER = ["numeric"]


def stock(item: str) -> int:
    """How many of an item are in stock."""
    MADE.append(item)
    return STOCK[item]


def _task(item: str) -> Task:
    calls = (PlannedCall("other", "stock", {"item": "desk"}, "count the desks"),) if item != "desk" else ()
    plan = Plan((*calls, PlannedCall("n", "stock", {"item": item}, f"count the {item}s")), Ref("n"))
    return Task(f"shop-{item}", Query(f"How many {item}s are there?"), EXPECTED.get(item, STOCK[item]), SCORER[0], plan=plan)


def load() -> Suite:
    return Suite("shop", "1", tuple(map(_task, STOCK)), lambda task: StatelessEnvironment([stock]))


@dataclass(frozen=True)
class Careless:
    """A loop that makes one call and answers with 0."""

    name = "careless"
    stops = frozenset({StopReason.FINISHED})

    def with_step_limit(self, tool_steps: int) -> Careless:
        return self

    async def run(self, query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        outcome = await Bare().run(query, tools, model, observer)
        return replace(outcome, answer="0")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Results]:
    """Runs the suite with other expected answers."""

    def begin(
        expected: dict[str, Any], *loops: str, profile: str = "clean", scorer: str = "numeric", traces: str = "all"
    ) -> Results:
        monkeypatch.setattr(f"{HERE}.EXPECTED", expected)
        monkeypatch.setattr(f"{HERE}.SCORER", [scorer])
        MADE.clear()
        settings: dict[str, Any] = {"loops": loops or ("bare", "finish"), "suite": f"{HERE}:load", "profiles": (profile,)}
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


def test_what_is_right_is_not_accused_nor_anything_without_traces_or_by_loops_that_disagree(ran: Callable[..., Results]) -> None:
    careless = f"{HERE}:Careless"
    assert told(ran({})) == told(ran({}, careless)) == []
    assert told(ran({"chair": 5}, traces="none")) == []
    assert told(ran({"chair": 5}, careless, "bare")) == [], "the two do not agree on what the calls lead to"
