"""A fault profile fitted to a run: rates that were put in come out, with intervals that cover them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.fit_profile.helpers import KNOWN, LOOPS, fit_json, fitted_to, holds, known, known_run, run, traces
from whichloop.experiments.fit_profile.attempts import wire_damage
from whichloop.experiments.fit_profile.decision_points import RetryRun
from whichloop.experiments.fit_profile.estimates import cluster_rate, estimate_clears
from whichloop.experiments.fit_profile.forgetting import RecallPoint, fault_share, forgetting_rates, recall_point
from whichloop.experiments.fit_profile.tally import Strikes, flaky_shares
from whichloop.metrics.statistics import wilson
from whichloop.models.faults import spoiled_forms
from whichloop.models.feedback import Level
from whichloop.models.profiles import FAULT_KINDS, load_profile
from whichloop.protocol import Reply, ToolCall
from whichloop.protocol.wire import native_call


def test_rates_that_were_put_in_come_out(fitted):
    missed = [kind for kind, rate in KNOWN.items() if not holds(fitted.rates[kind], rate)]
    assert len(missed) <= 2, missed  # of 18 intervals at 95 %
    others = {kind: rate.rate for kind, rate in fitted.rates.items() if kind not in KNOWN and rate.rate}
    assert others == {}


def test_what_is_counted_is_what_was_injected(disturbed, fitted):
    scheduled = Counter(fault.kind for item in disturbed for fault in item.record.faults)
    both = ("tool.raises", "tool.flaky")  # one that failed twice may be either
    assert sum(fitted.rates[kind].count for kind in both) == pytest.approx(sum(scheduled[kind] for kind in both), rel=0.15, abs=2)
    for kind in KNOWN.keys() - {*both}:
        slack = 2 + 0.15 * scheduled[kind]
        hidden = kind == "decision.no_tool"  # of a task that only one trial reached, nothing can be said
        native_text = kind in ("wire.malformed", "wire.truncated")  # a plain text that is cut reads as another
        assert fitted.rates[kind].count <= scheduled[kind] + slack, kind
        assert fitted.rates[kind].count >= scheduled[kind] - slack - (5 if hidden or native_text else 0), kind


def test_marks_of_injected_faults_are_not_read(disturbed, fitted):
    bare = traces(disturbed)
    for trace in bare:
        for event in trace["events"]:
            event.pop("fault", None)
    assert fit_json(bare, timed=False, paired=True) == fitted


def test_a_clean_run_fits_a_clean_profile():
    for loop in LOOPS:
        found = fitted_to(run([loop], load_profile("clean"), size=16, repeats=1))
        assert not any((found.profile.rates, found.profile.forget, found.profile.weaknesses)), (loop, found.profile.rates)
        assert all(rate.count == 0 for rate in found.rates.values())
        bound = found.rates["wire.empty"].interval
        assert bound is not None
        assert 0 < bound.high < 0.05


def test_arms_that_meet_the_same_stumbles_are_no_more_data_than_one():
    done = known_run("bare")
    one = fitted_to(done)
    same = [trace | {"arm": f"arm {number}"} for trace in traces(done) for number in range(4)]
    four = fit_json(same, timed=False, paired=True)
    for kind in KNOWN:
        alone, pooled = one.rates[kind].interval, four.rates[kind].interval
        assert alone is not None
        assert pooled is not None
        assert pooled.value == pytest.approx(alone.value, abs=1e-9)
        assert pooled.high - pooled.low >= 0.99 * (alone.high - alone.low)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_intervals_cover_at_their_level(loop):
    inside = [
        holds(found.rates[kind], rate)
        for seed in range(20)
        for found in [fitted_to(run([loop], known(), size=50, seed=seed))]
        for kind, rate in KNOWN.items()
    ]
    assert sum(inside) / len(inside) >= 0.925


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 50)), min_size=1, max_size=30), st.floats(1, 10))
def test_an_interval_holds_its_rate_and_is_never_empty(shares, effect):
    found = cluster_rate([(share * points, points) for share, points in shares], effect)
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


def test_dependent_points_are_covered_where_wilson_alone_is_not():
    random = np.random.default_rng(0)
    clustered, alone = [], []
    for _ in range(400):
        counts = random.binomial(12, random.beta(0.4, 3.6, 60))
        found = cluster_rate([(float(count), 12.0) for count in counts])
        assert found is not None
        clustered.append(found.low <= 0.1 <= found.high)
        low, high = wilson(int(counts.sum()), 720)
        alone.append(low <= 0.1 <= high)
    assert np.mean(clustered) >= 0.92
    assert np.mean(alone) < 0.80


ARGUMENTS = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=8), st.integers() | st.text("xyz 01", max_size=9), min_size=1, max_size=4
)

WIRE = tuple(kind for kind in FAULT_KINDS if kind.startswith("wire."))


@given(ARGUMENTS, st.sampled_from(WIRE), st.booleans())
def test_damage_is_told_by_the_reply(arguments, kind, native):
    text = json.dumps({"thought": "Next.", "tool_name": "add", "arguments": arguments})
    clean = Reply("Next.", (native_call(ToolCall("add", arguments)),)) if native else Reply(text)
    assert wire_damage(clean, False) == ""
    assert wire_damage(spoiled_forms(kind, clean)[0], True) == kind


SIMULATED = 6_000
"""Simulated faults or points: a share of them is known to within 0.03, four standard errors."""


def simulated_runs(never: float, chances: Mapping[Level, float], gives_up: Sequence[int], seed: int = 0) -> Counter[RetryRun]:
    """Return runs of retries that show the same each time, up to the cure or until the loop gives up."""
    rng = np.random.default_rng(seed)
    runs = Counter[RetryRun]()
    for level, chance in chances.items():
        permanent, retries = rng.random(SIMULATED) < never, rng.geometric(chance, SIMULATED)
        for is_permanent, taken, most in zip(permanent, retries, rng.choice(gives_up, SIMULATED), strict=True):
            cleared = not is_permanent and taken <= most
            runs[RetryRun((level,) * int(taken - 1 if cleared else most), level if cleared else None)] += 1
    return runs


@pytest.mark.parametrize(("never", "patience"), [(0.0, 6), (0.1, 2), (0.3, 3)])
def test_mistakes_that_never_clear_are_told_from_those_that_a_loop_gave_up(never: float, patience: int) -> None:
    found = estimate_clears(simulated_runs(never, {"nothing": 0.4}, (patience - 1, patience)))
    assert found.never == pytest.approx(never, abs=0.12 if patience == 2 else 0.06)
    assert found.nothing == pytest.approx(0.4, abs=0.06)


def test_each_level_that_some_retry_shows_comes_out() -> None:
    true: dict[Level, float] = {"nothing": 0.25, "failed": 0.5, "words": 0.8}
    found = estimate_clears(simulated_runs(0.05, true, (3, 4)))
    assert {level: getattr(found, level) for level in true} == pytest.approx(true, abs=0.03)


def simulated_points(forget: float, fault: float) -> Counter[RecallPoint]:
    rng = np.random.default_rng(2)
    points = Counter[RecallPoint]()
    for _ in range(SIMULATED):
        distances = np.sort(rng.random(rng.integers(1, 6)) * 0.6)[::-1]
        lost = np.flatnonzero(rng.random(len(distances)) < forget * distances)
        first = len(distances) - 1 if rng.random() < fault else int(lost[0]) if len(lost) else None
        again = "" if first is None else "last" if first == len(distances) - 1 else "earlier"
        points[recall_point("call", again, list(distances))] += 1
    return points


def failed_calls(draw: np.random.Generator, number: int, flaky: float, never: float) -> tuple[Counter[Strikes], int]:
    """How calls went that failed at first, half of them told by a loop what was wrong; and how many of them were flaky."""
    made, count = Counter[Strikes](), 0
    for _ in range(number):
        patience, clears = int(draw.integers(1, 7)), 0.8 if draw.random() < 0.5 else 0.4
        if draw.random() < flaky:
            count, needed = count + 1, 2.0
        else:
            needed = np.inf if draw.random() < never else float(draw.geometric(clears))
        made[int(min(needed, patience)), needed <= patience] += 1
    return made, count


@pytest.mark.parametrize(("flaky", "never"), [(0.2, 0.0), (0.7, 0.3)])
def test_flaky_calls_are_told_from_others_in_sum(flaky: float, never: float) -> None:
    made, count = failed_calls(np.random.default_rng(5), 6_000, flaky, never)
    shares = flaky_shares(made)
    assert sum(shares[way] * number for way, number in made.items()) == pytest.approx(count, abs=300)


@pytest.mark.parametrize(("forget", "fault"), [(0.35, 0.05), (0.0, 0.05)])
def test_overlooked_results_are_told_from_doubted_calls(forget: float, fault: float) -> None:
    points = simulated_points(forget, fault)
    found, faults = forgetting_rates(points)
    assert found == pytest.approx(forget, abs=0.04)
    assert faults["call"] == pytest.approx(fault, abs=0.015)
    counted = sum(count * fault_share(point, found, faults) for point, count in points.items())
    assert counted == pytest.approx(fault * SIMULATED, abs=0.015 * SIMULATED)
    assert forgetting_rates(Counter()) == (0, {})
