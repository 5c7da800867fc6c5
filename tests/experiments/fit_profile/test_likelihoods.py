"""What clears faults and what is forgotten: what was put into a simulation comes out, also where loops give up early."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from loopbench.experiments.fit_profile.clearing import RetryRun, clearing_chances
from loopbench.experiments.fit_profile.forgetting import RecallPoint, fault_share, forgetting_rates, recall_point

RUNS = 6_000
"""Simulated faults or points: a share of them is known to within 0.03, four standard errors."""


@pytest.mark.parametrize("patience", [2, 3, 6])
@pytest.mark.parametrize("never", [0.0, 0.1, 0.3])
def test_faults_that_never_clear_are_told_from_those_that_a_loop_gave_up(never: float, patience: int) -> None:
    """Loops give up after `patience` retries, or one fewer; counting what was still there would say 0.34 for 0.1."""
    rng = np.random.default_rng(0)
    runs = Counter[RetryRun]()
    for permanent, retry, gives_up in zip(
        rng.random(RUNS) < never, rng.geometric(0.4, RUNS), rng.integers(patience - 1, patience + 1, RUNS), strict=True
    ):
        cleared = not permanent and retry <= gives_up
        runs[RetryRun(0, int(retry - 1 if cleared else gives_up), "told" if cleared else "")] += 1
    found = clearing_chances(runs)
    assert found.never == pytest.approx(never, abs=0.12 if patience == 2 else 0.06)
    assert found.told == pytest.approx(0.4, abs=0.06)


def test_blind_retries_have_a_chance_of_their_own() -> None:
    rng = np.random.default_rng(1)
    runs = Counter[RetryRun]()
    for retry in rng.geometric(0.2, RUNS):
        runs[RetryRun(int(retry) - 1, 0, "blind")] += 1
    for retry in rng.geometric(0.7, RUNS):
        runs[RetryRun(0, int(retry) - 1, "told")] += 1
    found = clearing_chances(runs)
    assert (found.blind, found.told, found.never) == pytest.approx((0.2, 0.7, 0.0), abs=0.03)


def test_no_retries_are_refused() -> None:
    with pytest.raises(ValueError, match="no retries to learn from"):
        clearing_chances(Counter())


def simulated(forget: float, fault: float) -> Counter[RecallPoint]:
    rng = np.random.default_rng(2)
    points = Counter[RecallPoint]()
    for _ in range(RUNS):
        distances = np.sort(rng.random(rng.integers(1, 6)) * 0.6)[::-1]
        lost = np.flatnonzero(rng.random(len(distances)) < forget * distances)
        first = len(distances) - 1 if rng.random() < fault else int(lost[0]) if len(lost) else None
        again = "" if first is None else "last" if first == len(distances) - 1 else "earlier"
        points[recall_point("call", again, list(distances))] += 1
    return points


@pytest.mark.parametrize(("forget", "fault"), [(0.35, 0.05), (0.1, 0.1), (0.0, 0.05), (0.35, 0.0)])
def test_overlooked_results_are_told_from_doubted_calls(forget: float, fault: float) -> None:
    points = simulated(forget, fault)
    found = forgetting_rates(points)
    assert found.forget == pytest.approx(forget, abs=0.04)
    assert found.faults["call"] == pytest.approx(fault, abs=0.015)
    counted = sum(count * fault_share(point, found) for point, count in points.items())
    assert counted == pytest.approx(fault * RUNS, abs=0.015 * RUNS)


def test_without_points_nothing_is_forgotten() -> None:
    assert forgetting_rates(Counter()).forget == 0
