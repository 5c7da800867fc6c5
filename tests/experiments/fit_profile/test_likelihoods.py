"""What clears faults and what is forgotten: what was put into a simulation comes out, also where loops give up early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from whichloop.experiments.fit_profile.clearing import RetryRun, estimate_clears
from whichloop.experiments.fit_profile.forgetting import RecallPoint, fault_share, forgetting_rates, recall_point
from whichloop.experiments.fit_profile.tally import Strikes, flaky_shares
from whichloop.models.feedback import Level
from whichloop.models.profiles import Clears

RUNS = 6_000
"""Simulated faults or points: a share of them is known to within 0.03, four standard errors."""


def simulated_runs(never: float, chances: Mapping[Level, float], gives_up: Sequence[int], seed: int = 0) -> Counter[RetryRun]:
    """Return runs of retries that show the same each time, up to the cure or until the loop gives up."""
    rng = np.random.default_rng(seed)
    runs = Counter[RetryRun]()
    for level, chance in chances.items():
        permanent, retries = rng.random(RUNS) < never, rng.geometric(chance, RUNS)
        for is_permanent, taken, most in zip(permanent, retries, rng.choice(gives_up, RUNS), strict=True):
            cleared = not is_permanent and taken <= most
            runs[RetryRun((level,) * int(taken - 1 if cleared else most), level if cleared else None)] += 1
    return runs


@pytest.mark.parametrize("patience", [2, 3, 6])
@pytest.mark.parametrize("never", [0.0, 0.1, 0.3])
def test_mistakes_that_never_clear_are_told_from_those_that_a_loop_gave_up(never: float, patience: int) -> None:
    """Loops give up after `patience` retries, or one fewer; counting what was still there would say 0.34 for 0.1."""
    found = estimate_clears(simulated_runs(never, {"nothing": 0.4}, (patience - 1, patience)))
    assert found.never == pytest.approx(never, abs=0.12 if patience == 2 else 0.06)
    assert found.nothing == pytest.approx(0.4, abs=0.06)


def test_each_level_that_some_retry_shows_comes_out() -> None:
    true: dict[Level, float] = {"nothing": 0.25, "failed": 0.5, "words": 0.8}
    found = estimate_clears(simulated_runs(0.05, true, (3, 4)))
    assert {level: getattr(found, level) for level in true} == pytest.approx(true, abs=0.03)


def test_a_level_that_no_retry_shows_keeps_the_default_and_never_helps_less() -> None:
    assert estimate_clears(simulated_runs(0.0, {"nothing": 0.3}, (6,))).words == pytest.approx(Clears().words, abs=0.01)
    found = estimate_clears(simulated_runs(0.0, {"nothing": 0.9, "words": 0.5}, (6,)))
    assert found.nothing <= found.failed <= found.words


def test_one_run_of_retries_hardly_moves_the_default_and_none_leaves_it() -> None:
    found, usual = estimate_clears({RetryRun((), "nothing"): 1}), Clears()
    assert (found.never, found.nothing) == pytest.approx((usual.never, usual.nothing), abs=0.06)
    assert estimate_clears(Counter()) == usual
    assert estimate_clears(Counter(), 2.5) == Clears(attempts=2.5)


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


@pytest.mark.parametrize(
    ("forget", "fault"),
    [(0.35, 0.05), (0.0, 0.05), *(pytest.param(*rates, marks=pytest.mark.slow) for rates in ((0.1, 0.1), (0.35, 0.0)))],
)
def test_overlooked_results_are_told_from_doubted_calls(forget: float, fault: float) -> None:
    points = simulated(forget, fault)
    found = forgetting_rates(points)
    assert found.forget == pytest.approx(forget, abs=0.04)
    assert found.faults["call"] == pytest.approx(fault, abs=0.015)
    counted = sum(count * fault_share(point, found) for point, count in points.items())
    assert counted == pytest.approx(fault * RUNS, abs=0.015 * RUNS)


def test_without_points_nothing_is_forgotten() -> None:
    assert forgetting_rates(Counter()).forget == 0


def failed_calls(draw: np.random.Generator, number: int, flaky: float, never: float) -> tuple[Counter[Strikes], int]:
    """How calls went that failed at first, half of them told by a loop what was wrong; and how many of them were flaky."""
    made, count = Counter[Strikes](), 0
    for _ in range(number):
        patience, clears = int(draw.integers(1, 7)), 0.8 if draw.random() < 0.5 else 0.4
        if draw.random() < flaky:
            count, needed = count + 1, 2.0
        else:
            needed = np.inf if draw.random() < never else float(draw.geometric(clears))
        made[Strikes(int(min(needed, patience)), needed <= patience)] += 1
    return made, count


@pytest.mark.parametrize(("flaky", "never"), [(0.0, 0.1), (0.2, 0.0), (0.4, 0.1), (0.7, 0.3)])
def test_flaky_calls_are_told_from_others_in_sum(flaky: float, never: float) -> None:
    made, count = failed_calls(np.random.default_rng(5), 6_000, flaky, never)
    shares = flaky_shares(made)
    assert sum(shares[way] * number for way, number in made.items()) == pytest.approx(count, abs=300)


def test_a_call_that_worked_after_another_number_of_failures_was_not_flaky() -> None:
    shares = flaky_shares({Strikes(1, True): 50, Strikes(2, True): 60, Strikes(3, True): 4, Strikes(4, False): 3})
    assert shares[Strikes(1, True)] == shares[Strikes(3, True)] == shares[Strikes(4, False)] == 0
    assert 0.5 < shares[Strikes(2, True)] < 1
    assert flaky_shares({}) == {}
