"""What more tasks are likely to decide: laws of the outlook, and that fresh runs keep its word."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.outlook import CHANCES, MAX_TIMES, gate_outlook, pair_outlook
from whichloop.metrics.pairs import paired_test, pairs_of_family
from whichloop.metrics.power import Levels, Spread, spread
from whichloop.metrics.summary import TaskValues

FOUND = st.builds(
    lambda difference, between, within, repeats, scores: Spread(
        tasks=60,
        units=60,
        repeats=repeats,
        difference=difference,
        between=between,
        within_a=within,
        within_b=within,
        within_known=True,
        floor=0.03,
        scores=scores,
        df=20.0,
    ),
    st.floats(-0.3, 0.3),
    st.floats(0, 0.4),
    st.floats(0, 0.25),
    st.integers(1, 3),
    st.booleans(),
)
MARGIN = st.sampled_from([0.02, 0.1])


@given(found=FOUND, margin=MARGIN)
def test_a_range_of_sizes_beyond_what_there_was_each_with_its_chance(found, margin):
    made = pair_outlook(found, margin=margin, cost_usd=0.5)
    if made is None:
        return
    assert found.tasks < made.fewer.tasks <= made.more.tasks <= MAX_TIMES * found.tasks
    assert CHANCES[0] <= made.fewer.chance <= 1
    assert made.fewer.chance <= made.more.chance + 0.05
    for size in (made.fewer, made.more):
        assert size.trials == 2 * size.tasks * found.repeats
        assert size.cost_usd == pytest.approx(0.5 * size.trials)
    assert json.loads(json.dumps(made.to_json())) == made.to_json()


@given(found=FOUND, margin=MARGIN)
def test_both_orders_of_a_pair_have_one_outlook(found, margin):
    made, turned = pair_outlook(found, margin=margin), pair_outlook(replace(found, difference=-found.difference), margin=margin)
    assert (made is None) == (turned is None)
    if made is not None and turned is not None:
        assert (made.fewer.tasks, made.more.tasks) == (turned.fewer.tasks, turned.more.tasks)


@given(found=FOUND, margin=MARGIN)
def test_a_lower_level_takes_no_fewer_tasks(found, margin):
    easy, hard = pair_outlook(found, margin=margin, alpha=0.1), pair_outlook(found, margin=margin, alpha=0.01)
    assert hard is None or (easy is not None and easy.fewer.tasks <= hard.fewer.tasks)


def test_an_observed_difference_promises_nothing():
    """As large as a test at 0.05 nearly shows: a little more decides it in half of the runs, and far more in four of five."""
    found = Spread(100, 100, 1, 0.1, 0.3, 0.0, 0.0, False, 0.03, True, df=99.0)
    made = pair_outlook(found, margin=0.02)
    assert made is not None
    assert made.fewer.tasks < 200
    assert made.more.tasks > 3 * made.fewer.tasks


def test_a_gate_counts_the_trials_of_the_run_alone():
    found = Spread(100, 100, 2, -0.01, 0.02, 0.05, 0.05, True, 0.03, True, df=99.0)
    made = gate_outlook(found, margin=0.02, levels=Levels(0.05, 0.05))
    assert made is not None
    assert made.fewer.trials == 2 * made.fewer.tasks


@pytest.mark.parametrize(("pilots", "apart"), [(70, 0.17), pytest.param(140, 0.12, marks=pytest.mark.slow)])
def test_fresh_runs_are_decided_as_often_as_the_outlook_says(pilots, apart):
    """True differences as a wide law draws them, pilots of 120 tasks: for the undecided ones a fresh run of that size."""
    rng = np.random.default_rng(18)
    said, decided = [], []
    for _ in range(pilots):
        shift = rng.uniform(-0.15, 0.15)

        def runs(tasks: int, shift: float = shift) -> tuple[TaskValues, TaskValues]:
            chances = rng.beta(2, 1, tasks)
            names = [str(place) for place in range(tasks)]
            a, b = ((rng.random(tasks) < np.clip(p, 0, 1)).astype(float) for p in (chances + shift, chances))
            listed = ({name: [float(x)] for name, x in zip(names, one, strict=True)} for one in (a, b))
            first, second = (TaskValues(found, dict.fromkeys(names, "")) for found in listed)
            return first, second

        def word(a: TaskValues, b: TaskValues) -> str:
            return pairs_of_family("accuracy", {("a", "b"): paired_test("accuracy", a, b, 0.05)}, 0.05)[0].verdict.word

        pilot = runs(120)
        found = spread(*pilot)
        made = None if found is None or word(*pilot) != "undecided" else pair_outlook(found, margin=0.05)
        if made is not None:
            said.append(made.fewer.chance)
            decided.append(word(*runs(made.fewer.tasks)) != "undecided")
    assert len(said) > 0.39 * pilots
    assert np.mean(decided) == pytest.approx(np.mean(said), abs=apart)
