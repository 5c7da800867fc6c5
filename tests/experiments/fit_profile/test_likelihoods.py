"""What clears faults and what is forgotten: what was put into a simulation comes out, also where loops give up early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from whichloop.experiments.fit_profile.clearing import Retry, RetryRun, clearing_chances
from whichloop.experiments.fit_profile.forgetting import RecallPoint, fault_share, forgetting_rates, recall_point
from whichloop.experiments.fit_profile.tally import Strikes, flaky_shares
from whichloop.models.profiles import FEEDBACK_PARTS, Clears

RUNS = 6_000
"""Simulated faults or points: a share of them is known to within 0.03, four standard errors."""


BLIND = Retry()
"""A retry that shows nothing of the failure."""


def simulated_runs(never: float, chances: Mapping[Retry, float], gives_up: Sequence[int], seed: int = 0) -> Counter[RetryRun]:
    """Return runs of retries that show the same each time, up to the cure or until the loop gives up."""
    rng = np.random.default_rng(seed)
    runs = Counter[RetryRun]()
    for retry, chance in chances.items():
        permanent, retries = rng.random(RUNS) < never, rng.geometric(chance, RUNS)
        for is_permanent, taken, most in zip(permanent, retries, rng.choice(gives_up, RUNS), strict=True):
            cleared = not is_permanent and taken <= most
            runs[RetryRun((retry,) * int(taken - 1 if cleared else most), retry if cleared else None)] += 1
    return runs


@pytest.mark.parametrize("patience", [2, 3, 6])
@pytest.mark.parametrize("never", [0.0, 0.1, 0.3])
def test_faults_that_never_clear_are_told_from_those_that_a_loop_gave_up(never: float, patience: int) -> None:
    """Loops give up after `patience` retries, or one fewer; counting what was still there would say 0.34 for 0.1."""
    found = clearing_chances(simulated_runs(never, {BLIND: 0.4}, (patience - 1, patience)))
    assert found.never == pytest.approx(never, abs=0.12 if patience == 2 else 0.06)
    assert found.resample == pytest.approx(0.4, abs=0.06)


def test_each_part_that_some_retry_shows_alone_comes_out() -> None:
    true = {"names": 0.05, "error": 0.3, "expected": 0.2, "reply": 0.1}
    shown = {BLIND: 0.25} | {Retry(frozenset({part})): 0.25 + share for part, share in true.items()}
    found = clearing_chances(simulated_runs(0.05, shown, (3, 4)))
    assert found.resample == pytest.approx(0.25, abs=0.03)
    assert found.parts == pytest.approx(true, abs=0.03)


def test_parts_of_which_there_is_nothing_to_show_leave_their_shares_to_the_others() -> None:
    only_reply = Retry(frozenset({"reply"}), frozenset({"reply"}))
    found = clearing_chances(simulated_runs(0.0, {BLIND: 0.3, only_reply: 0.8}, (6,)))
    assert found.resample + sum(found.parts.values()) == pytest.approx(0.8, abs=0.03)


def test_parts_that_are_always_shown_together_share_their_whole_as_the_default_does() -> None:
    everything = Retry(frozenset(FEEDBACK_PARTS))
    found = clearing_chances(simulated_runs(0.0, {BLIND: 0.35, everything: 0.9}, (6,)))
    assert found.parts == pytest.approx({part: getattr(Clears(), part) for part in FEEDBACK_PARTS}, abs=0.03)


def test_one_run_of_retries_hardly_moves_the_default() -> None:
    found, usual = clearing_chances({RetryRun((), BLIND): 1}), Clears()
    assert (found.never, found.resample) == pytest.approx((usual.never, usual.resample), abs=0.06)


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
