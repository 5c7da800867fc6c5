"""How much of accuracy is loop and how much model: laws of the split, and examples."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.harness import Crossed, harness, reversals
from whichloop.metrics.record import Record

SHAPES = st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(3, 8))
MEANS = SHAPES.flatmap(lambda shape: arrays.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])))


@given(MEANS)
def test_sums_of_squares_add_up_to_the_whole(means):
    found = {source: float(value[0]) for source, value in Crossed(means).sums_of_squares().items()}
    assert sum(found.values()) == pytest.approx(((means - means.mean()) ** 2).sum())
    assert all(value >= -1e-9 for value in found.values())


@given(MEANS, st.randoms())
def test_the_order_of_loops_and_of_tasks_does_not_matter_and_intervals_hold_their_value(means, random):
    loops, tasks = list(range(means.shape[0])), list(range(means.shape[2]))
    random.shuffle(loops)
    random.shuffle(tasks)
    one, other = Crossed(means), Crossed(means[loops][:, :, tasks])
    assert 0 <= reversals(one.cells) == reversals(other.cells) <= 1
    for source, value in one.variances().items():
        assert value == pytest.approx(other.variances()[source])
    for part in one.parts():
        assert 0 <= part.deviation.low <= part.deviation.value <= part.deviation.high
        assert 0 <= part.share <= 1


@given(st.integers(0, 500))
def test_no_interval_is_told_without_a_width(seed):
    """Chance alone, that repeats tell: what depends on the task is estimated as 0 in part of the runs."""
    random = np.random.default_rng(seed)
    drawn = random.binomial(1, random.beta(2, 2, 60), (3, 3, 3, 60))
    parts = Crossed(drawn.mean(0), (drawn.var(0, ddof=1) / 3).mean((0, 1))).parts()
    for part in parts:
        ends = part.to_json()["deviation"]
        assert (ends["low"] is None) == (ends["high"] is None) == (part.deviation.high < 0.0005)


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_with_equal_noise_everywhere_the_interval_of_loops_is_that_of_the_noncentral_f(spread):
    """Steiger 2004: the noncentralities under which the F that was found is neither too small nor too large."""
    loops, tasks = 4, 400
    noise = np.random.default_rng(7).normal(0, 0.4, (loops, 1, tasks))
    means = np.linspace(-spread, spread, loops)[:, None, None] + noise + np.zeros((1, 2, 1))
    by_task = means.mean(1)
    apart = by_task - by_task.mean(0)
    squares = tasks * (apart.mean(1) ** 2).sum()
    free = (loops - 1) * (tasks - 1)
    error = ((apart - apart.mean(1, keepdims=True)) ** 2).sum() / free

    def end(share: float) -> float:
        found = squares / (loops - 1) / error
        below = partial(scipy.special.ncfdtr, loops - 1, free)
        if below(0.0, found) <= share:
            return 0.0
        noncentral = scipy.optimize.brentq(lambda nc: below(nc, found) - share, 0.0, 10 * squares / error + 100)
        return math.sqrt(noncentral * error / tasks / (loops - 1))

    interval = next(part.deviation for part in Crossed(means).parts() if part.source == "loop")
    assert interval.low == pytest.approx(end(0.975), abs=0.004)
    assert interval.high == pytest.approx(end(0.025), abs=0.004)


@pytest.mark.parametrize(
    ("cells", "loops", "models"),
    [([[0.9, 0.1], [0.1, 0.9]], 1.0, 1.0), ([[0.9, 0.8], [0.1, 0.2]], 0.0, 1.0), ([[0.9, 0.8, 0.1], [0.1, 0.2, 0.9]], 2 / 3, 1.0)],
)
def test_rankings_that_turn_round_are_counted(cells, loops, models):
    assert (reversals(np.array(cells)), reversals(np.array(cells).T)) == pytest.approx((loops, models))


def trials(loops: dict[str, float], models: dict[str, float], repeats: int = 1, tasks: int = 40) -> list[Record]:
    generator = np.random.default_rng(3)
    return [
        Record(f"{loop}/{model}", "s", "d", f"t{task}", n, 0, "scored", scores={"accuracy": float(generator.random() < a + b)})
        for loop, a in loops.items()
        for model, b in models.items()
        for task in range(tasks)
        for n in range(repeats)
    ]


def infos(records: list[Record], **same: str) -> list[ArmInfo]:
    made = []
    for arm in dict.fromkeys(record.arm for record in records):
        loop, _, model = arm.rpartition("/")
        made.append(ArmInfo(arm, loop, {}, same.get("model", model), same.get("profile", model), "s"))
    return made


def test_the_difference_of_deviations_says_which_moves_accuracy_more():
    strong = trials({"a": 0.1, "b": 0.6}, {"m": 0.0, "n": 0.05}, tasks=120)
    (found,) = harness(strong, infos(strong, profile="clean"))
    assert found.difference.low > 0
    assert (found.loops, found.conditions, found.kind, found.tasks) == (("a", "b"), ("m", "n"), "model", 120)
    weak = trials({"a": 0.1, "b": 0.15}, {"m": 0.0, "n": 0.5}, tasks=120)
    (found,) = harness(weak, infos(weak, model="scripted"))
    assert (found.kind, found.difference.high < 0) == ("fault profile", True)
    alike = trials({"a": 0.5, "b": 0.5}, {"m": 0.0, "n": 0.0})
    (found,) = harness(alike, infos(alike, profile="clean"))
    assert found.difference.low <= 0 <= found.difference.high


def test_repeats_tell_chance_from_the_interaction_of_all_three():
    tried = trials({"a": 0.2, "b": 0.4}, {"m": 0.0, "n": 0.2}, repeats=3)
    (found,) = harness(tried, infos(tried, profile="clean"))
    assert [part.source for part in found.parts][-1] == "chance"
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)


def test_only_what_is_crossed_on_enough_tasks_is_split():
    one = trials({"a": 0.5}, {"m": 0.0, "n": 0.1})
    few = trials({"a": 0.5, "b": 0.5}, {"m": 0.0, "n": 0.1}, tasks=2)
    assert harness(one, infos(one, profile="clean")) == harness(few, infos(few, profile="clean")) == ()
    some = [record for record in trials({"a": 0.5, "b": 0.2, "c": 0.3}, {"m": 0.0, "n": 0.1}) if record.arm != "c/n"]
    (found,) = harness(some, infos(some, profile="clean"))
    assert found.loops == ("a", "b")
    assert found.to_json()["parts"][0]["source"] == "loop"


def test_the_names_of_imported_arms_tell_the_model():
    table = trials({"careful": 0.7, "hasty": 0.2}, {"gpt": 0.0, "claude": 0.1})
    (found,) = harness(table, infos(table, model="unknown", profile="imported"))
    assert (found.kind, found.conditions, found.loops) == ("model", ("gpt", "claude"), ("careful", "hasty"))
