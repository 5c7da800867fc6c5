"""How often the gate is wrong: its tables in docs/gate.md, and slowly, the simulations that they come from."""

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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_real_loops_raise_no_more_false_alarms_and_a_real_change_is_found(rates):
    pairs = 12
    most = int(stats.binom.ppf(0.9999, pairs, rates.ALPHA))
    for was, now, *_, told, _, _ in cells(list(rates.real(pairs))):
        regressions = round(float(told.split(" ")[0]) * pairs)
        assert (regressions <= most) if was == now else (regressions > 0.5 * pairs)


def test_the_page_has_every_row_no_rate_beyond_alpha_and_the_power_that_was_promised(rates):
    worlds = [world.name for world in rates.WORLDS]
    alarms, passes, real, power = (shown(rates, name) for name in ("false alarms", "hidden drops", "real loops", "power"))
    assert [row[0] for row in alarms] == [name for name in worlds for _ in rates.FALSE_ALARMS]
    assert [row[0] for row in passes] == [name for name in worlds for _ in rates.HIDDEN]
    assert all(lowest(row[4]) <= rates.ALPHA for row in alarms)
    assert all(lowest(row[4]) <= rates.ALPHA + NEARLY for row in passes)
    assert all(lowest(row[5]) <= rates.ALPHA for row in real if row[0] == row[1])
    assert len(power) == len(rates.WORLDS) * 2 * (len(rates.DROPS) + 1)
    assert all(0.8 <= float(row[6]) < 0.85 for row in power)
    assert all(float(row[7]) > float(row[6]) - 0.07 for row in power)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("world", range(4))
def test_false_alarms_and_passes_of_the_margin_are_at_most_alpha_and_drops_are_found_as_promised(rates, world):
    where = rates.WORLDS[world]
    for size, metrics, arms in rates.FALSE_ALARMS:
        found = rates.outcomes(where, size, RUNS, metrics=metrics, arms=arms)
        assert found["regression"] <= WORST, (size, metrics, arms)
    for row in cells(list(rates.hidden(RUNS, [where]))):
        assert float(row[4].split(" ")[0]) * RUNS <= WORST + NEARLY * RUNS, row
    for plan in rates.plans([where]):
        assert plan.found(RUNS) > plan.promised - 0.1, plan
