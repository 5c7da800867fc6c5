"""What an optimization cost, in its table: each part named, in every unit, and what is not known called unknown."""

from __future__ import annotations

from dataclasses import replace

from tests.experiments.optimize.written import (
    ONCE,
    A,
    B,
    shown,
)
from whichloop.experiments.optimize.candidates import SearchCost
from whichloop.experiments.optimize.result import optimization_result, total_cost
from whichloop.metrics.gains import Cost


def test_dollars_are_shown_where_they_are_known(write):
    priced = {name: SearchCost(1, 10, 100, 0.251) for name in ("search", "proposals", "evaluation")}
    found = optimization_result(write(replace(A, changes=priced), cost_usd=0.01, nominal_usd=0.01))
    row = next(row for row in shown(found)["Cost"] if row["of"] == "USD with cache")
    assert (row[ONCE], row["a solved task before"]) == ("0.2510 + 0.2510 + 0.2510", "0.03000")
    assert found.designs[0].cost is not None
    assert found.designs[0].cost.amortised is not None
    assert found.designs[0].cost.amortised.break_even.dollars == 51  # 0.753 / (2.5 · 0.01 - 0.01) = 50.2


def test_what_is_not_known_is_called_unknown_and_never_never(write):
    parts = {"search": SearchCost(1, 10, 100, 0.25), "proposals": SearchCost(0, 3, 30), "evaluation": SearchCost()}
    found = optimization_result(write(replace(A, changes=parts), replace(B, after=1), cost_usd=0.01))
    unpriced, lost = (row for row in shown(found)["Cost"] if row["of"] == "USD")
    share = next(column for column in unpriced if column.startswith("with its share at "))
    assert (unpriced[ONCE], unpriced[share], unpriced["break-even"]) == ("0.2500 + unknown + 0.0000", "unknown", "unknown")
    assert (lost[ONCE], lost["break-even"]) == ("unknown + unknown + unknown", "unknown")
    tokens = [row["break-even"] for row in shown(found)["Cost"] if row["of"] == "tokens"]
    assert tokens[1] == "never"


def test_dollars_are_unknown_where_a_part_of_them_is():
    assert total_cost([SearchCost(1, 5, 50, 0.5), SearchCost(0, 2, 20)]) == Cost(7, 70, None)
    assert total_cost([SearchCost(1, 5, 50, 0.5), SearchCost()]) == Cost(5, 50, 0.5)
    assert total_cost([SearchCost(), SearchCost()]) == Cost(0, 0, None)
