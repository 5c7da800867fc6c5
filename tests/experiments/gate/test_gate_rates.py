"""How often the gate is wrong: its tables in docs/gate-rates.md, and slowly, the simulations that they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

import pytest
from scipy import stats

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

RUNS = 400
NEARLY = 0.01
"""The bounds are approximate, the sign-flip test is exact."""
WORST = int(stats.binom.ppf(0.9999, RUNS, 0.05))
"""More wrong ones than this are no chance, at a rate of 0.05."""


@pytest.fixture(scope="module")
def rates() -> ModuleType:
    return load_benchmark("gate_rates")


def cells(lines: Sequence[str]) -> list[list[str]]:
    """Of a table, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def shown(rates: ModuleType, name: str) -> list[list[str]]:
    return cells(block(rates.PAGE, name).split("\n"))


def lowest(share: str) -> float:
    """Of a share with its interval."""
    found = re.fullmatch(r"\d\.\d{3} \[(\d\.\d{3}), \d\.\d{3}\]", share)
    assert found is not None
    return float(found[1])


# --- the page ---


def test_the_page_has_every_row_and_no_rate_beyond_alpha(rates):
    alarms, passes = shown(rates, "false alarms"), shown(rates, "hidden drops")
    assert [(len(table), {len(row) for row in table}) for table in (alarms, passes)] == [
        (len(rates.FALSE_ALARMS), {2 + len(rates.WORLDS)}),
        (len(rates.HIDDEN), {2 + len(rates.WORLDS)}),
    ]
    assert all(lowest(share) <= rates.ALPHA for _, _, *shares in alarms for share in shares)
    assert all(lowest(share) <= rates.ALPHA + NEARLY for _, _, *shares in passes for share in shares)


# --- the simulations ---

slow = [pytest.mark.slow, pytest.mark.timeout(1800)]
IN_EACH_WORLD = pytest.mark.parametrize("world", [pytest.param(world, marks=slow) for world in (0, 3)])


@IN_EACH_WORLD
def test_where_nothing_changed_false_alarms_are_at_most_alpha(rates, world):
    for size, metrics, arms in rates.FALSE_ALARMS:
        found = rates.outcomes(rates.WORLDS[world], size, RUNS, metrics=metrics, arms=arms)
        assert found["regression"] <= WORST, (size, metrics, arms)


@IN_EACH_WORLD
def test_a_change_of_the_margin_passes_at_most_at_alpha(rates, world):
    for _, metrics, share in cells(list(rates.hidden(RUNS, [rates.WORLDS[world]]))):
        assert float(share.split(" ")[0]) * RUNS <= WORST + NEARLY * RUNS, metrics
