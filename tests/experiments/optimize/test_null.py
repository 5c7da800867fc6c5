"""Where nothing can be learned, no gain is seen beyond the promised rate; where something can, it is seen.

Before and after are compared on the test split with fresh draws of faults for either arm, over and over: with equal draws, trials
without a weakness are the same before and after.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scipy.stats import binom

from benchmarks.pages import cells
from whichloop.experiments.optimize.result import OptimizationResult


@pytest.fixture(scope="module")
def null(optimizers_benchmark: ModuleType) -> ModuleType:
    return optimizers_benchmark


def most(rate: float, replicates: int) -> int:
    """So many of the replicates, or fewer, in all but one of a thousand simulations at this rate."""
    return int(binom.ppf(0.999, replicates, rate))


# --- equal draws ---


def drawn(found: OptimizationResult) -> dict[tuple[str, str], list[Any]]:
    """Design and task → what came of it, before and after."""
    assert found.test is not None
    made: dict[tuple[str, str], list[Any]] = {}
    for record in found.test.records:
        told = (record.accuracy, record.stop, record.steps, record.calls, record.tool_calls, record.faults, record.trace_digest)
        made.setdefault((record.arm.partition("/")[0].partition("@")[0], record.task), []).append(told)
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["BootstrapFewShot", "COPRO(breadth=2, depth=1)"])
def test_without_a_weakness_equal_draws_give_equal_trials(null: ModuleType, tmp_path: Path, optimizer: str) -> None:
    loops = ("bare", "react_extract")
    found = null.optimized(loops, optimizer, "flaky-format", tmp_path, train=4, dev=1, tasks=4)
    assert all(not design.is_unchanged for design in found.designs if not optimizer.startswith("COPRO"))
    assert all(len(told) == 2 and told[0] == told[1] for told in drawn(found).values())
    assert found.gains is not None
    assert [gain.test.verdict.word for gain in found.gains.gains if gain.test is not None] == ["undecided"] * len(loops)
    assert found.gains.change == "same"


# --- fresh draws ---


def by_margin(null: ModuleType, place: int, folder: Path) -> list[Any]:
    """What was counted, and the rows of it, which are printed and stand on the page."""
    found: list[Any] = null.simulated(null.SITUATIONS[place], folder)
    rows = [null.counted_row(counted) for counted in found]
    print("\n".join(["", *rows]))
    assert set(rows) <= set(null.shown("null"))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestWithFreshDrawsOfFaults:
    def test_without_a_weakness_the_verdict_is_no_difference_at_the_promised_rate(self, null: ModuleType, tmp_path: Path) -> None:
        (counted,) = by_margin(null, 0, tmp_path)
        replicates = counted.situation.replicates
        assert counted.moved <= most(null.ALPHA, replicates)
        tests = replicates * len(counted.situation.loops)
        assert 0 < counted.unadjusted <= most(null.ALPHA, tests)  # the draws do differ
        assert all(abs(difference) < 0.04 for difference in counted.means)

    def test_a_gain_beyond_the_margin_is_not_called_equivalent(self, null: ModuleType, tmp_path: Path) -> None:
        beyond, within = sorted(by_margin(null, 1, tmp_path), key=lambda counted: float(counted.margin))
        assert beyond.margin < null.true_gain(within.situation) < within.margin
        assert beyond.equivalent <= most(null.ALPHA, beyond.situation.replicates)
        assert within.equivalent > 0  # it can be called so

    def test_a_large_gain_is_found(self, null: ModuleType, tmp_path: Path) -> None:
        (counted,) = by_margin(null, 2, tmp_path)
        gain, replicates = null.true_gain(counted.situation), counted.situation.replicates
        assert all(abs(difference - gain) < 0.03 for difference in counted.means)
        assert counted.better > 0.8 * replicates * len(counted.situation.loops)
        assert counted.equivalent == 0


@pytest.mark.thorough
def test_the_page_has_all_situations(null: ModuleType) -> None:
    told = [(situation.says, f"{margin:g}") for situation in null.SITUATIONS for margin in situation.margins]
    assert [(row[0], row[2]) for row in cells(null.PAGE, "null")[1:]] == told
