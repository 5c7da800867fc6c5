"""Looking at a run on its way: what is spent, in what order tasks are asked, and that alpha is kept."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.cases import cases
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.paired import ONCE, LookLevel, levels, spent
from whichloop.metrics.record import Record
from whichloop.metrics.sequential import Looks, all_decided, compare_at_looks, looked

ALPHA = st.floats(1e-4, 0.4)


def planned(tasks: int = 10, looks: int = 3, seed: int = 0) -> Looks:
    return Looks.planned([f"t{i}" for i in range(tasks)], looks, seed)


def test_lan_demets_vector():
    """Cumulative O'Brien-Fleming-type spending at five equal looks, alpha 0.05."""
    assert [spent(k / 5) for k in range(1, 6)] == pytest.approx([1.17e-5, 1.94e-3, 1.14e-2, 2.84e-2, 0.05], rel=5e-3)


@given(share=st.floats(0.01, 0.99), alpha=ALPHA)
def test_more_is_spent_the_further_a_run_has_come(share, alpha):
    assert 0 < spent(share, alpha) < spent((share + 1) / 2, alpha) <= spent(1, alpha) == alpha
    assert spent(share, alpha) < spent(share, alpha * 2)


def shares(looks: int) -> tuple[float, ...]:
    return tuple(look / looks for look in range(1, looks + 1))


@given(looks=st.integers(2, 20), alpha=ALPHA)
def test_each_look_has_more_of_alpha_than_its_part_and_all_of_them_less_than_all(looks, alpha):
    """Looks hang together: what an earlier one would have rejected need not be paid for again."""
    found = levels(shares(looks), alpha)
    parts = [after - before for before, after in pairwise((0.0, *(spent(share, alpha) for share in shares(looks))))]
    assert found[0] == pytest.approx(parts[0])
    assert all(part * (1 - 1e-6) <= level <= alpha for part, level in zip(parts, found, strict=True))
    assert list(found) == sorted(found)


@given(alpha=st.floats(1e-3, 0.4), share=st.floats(0.1, 0.9))
def test_two_looks_by_the_normal_law_of_two(alpha, share):
    heights = stats.norm.isf(np.array(levels((share, 1.0), alpha)) / 2)
    within = stats.multivariate_normal([0, 0], [[1, share**0.5], [share**0.5, 1]]).cdf(heights, lower_limit=-heights)
    assert 1 - within == pytest.approx(alpha, abs=1e-4)
    assert levels((1.0,), alpha) == pytest.approx((alpha,))


@pytest.mark.parametrize("looks", [4, *(pytest.param(looks, marks=pytest.mark.slow) for looks in (2, 10, 20))])
def test_the_chance_that_any_look_rejects_is_alpha(looks):
    steps = np.random.default_rng(looks).normal(size=(200_000, looks))
    motion = np.cumsum(steps, axis=1) / np.sqrt(np.arange(1, looks + 1))
    heights = stats.norm.isf(np.array(levels(shares(looks), 0.05)) / 2)
    rejected = (np.abs(motion) > heights).any(axis=1).mean()
    assert rejected == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 200_000))


@settings(max_examples=cases(15))
@given(looks=st.integers(1, 10), data=st.data(), p=st.floats(1e-12, 0.4), alpha=st.floats(1e-6, 0.4))
def test_what_p_says_of_all_looks_is_what_the_level_says_of_p(looks, data, p, alpha):
    level = LookLevel(shares(looks)[: data.draw(st.integers(1, looks))])
    assume(abs(p - level.nominal(alpha)) > 1e-6 * p)
    assert (level.overall(p) < alpha) == (p < level.nominal(alpha))
    assert p <= level.overall(p) * (1 + 1e-9)


def test_a_run_that_is_looked_at_once_has_all_of_alpha():
    assert ONCE.nominal(0.05) == ONCE.overall(0.05) == 0.05


@pytest.mark.parametrize(("share", "alpha"), [(0, 0.05), (1.5, 0.05), (0.5, 0), (0.5, 1), (math.nan, 0.05)])
def test_what_cannot_be_spent_is_refused(share, alpha):
    with pytest.raises(ValueError, match="must lie between"):
        spent(share, alpha)


@given(tasks=st.integers(2, 60), looks=st.integers(2, 20), seed=st.integers(0, 5))
def test_a_plan_asks_each_task_once_in_equal_shares(tasks, looks, seed):
    if tasks < looks:
        with pytest.raises(ValueError, match=f"looks: {looks} of them need as many tasks, and there are {tasks}"):
            planned(tasks, looks, seed)
        return
    found = planned(tasks, looks, seed)
    stages = [found.stage(look) for look in range(1, looks + 1)]
    assert sorted(task for stage in stages for task in stage) == sorted(f"t{i}" for i in range(tasks))
    assert max(map(len, stages)) - min(map(len, stages)) <= 1
    assert all(found.look_of(task) == look for look, stage in enumerate(stages, 1) for task in stage)
    assert Looks.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_the_order_is_the_seeds():
    assert planned(40).order == planned(40).order != planned(40, seed=1).order
    first = Counter(planned(10, seed=seed).order[0] for seed in range(300))
    assert len(first) == 10
    assert max(first.values()) < 60


@pytest.mark.parametrize(
    "damage",
    [
        {"ends": []},
        {"ends": [3, 3, 10]},
        {"ends": [3, 6, 9]},
        {"order": ["a"] * 10},
        {"order": None},
        {"ends": 3},
    ],
)
def test_a_damaged_plan_is_refused(damage):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Looks.from_json(planned().to_json() | damage)


@given(done=st.integers(0, 20), part=st.integers(0, 1))
def test_how_far_a_run_has_come(done, part):
    """Two trials per task; the next task may have ended one of them."""
    looks = planned(10, 3)
    trials = dict.fromkeys(looks.order[: min(done, 10)], 2)
    if part and done < 10:
        trials[looks.order[done]] = 1
    found = looked(looks, trials, 2)
    reached = sum(end <= done for end in looks.ends)
    assert (found.reached, found.planned, found.stopped) == (reached, 3, False)
    assert found.between == (reached == 0 or (reached < 3 and (done > looks.ends[reached - 1] or bool(part))))
    assert found.level == looks.level(reached + found.between).nominal(0.05)
    assert found.tasks == (looks.ends[reached - 1] if reached else 0)


def arm(name: str, profile: str = "clean") -> ArmInfo:
    return ArmInfo(name, name, {}, "scripted", profile, "s")


def outcomes(name: str, scores: list[float]) -> list[Record]:
    calls = {"decide": 1}
    return [Record(name, "s", "d", f"t{i}", 0, 0, "scored", scores={"accuracy": s}, calls=calls) for i, s in enumerate(scores)]


def test_a_run_is_decided_when_every_pair_is():
    good, bad, even = outcomes("a", [1.0] * 30), outcomes("b", [0.0] * 30), outcomes("c", [1.0, 0.0] * 15)
    assert all_decided(compare([*good, *bad], [arm("a"), arm("b")]))
    assert all_decided(compare([*good, *bad, *even], [arm("a"), arm("b"), arm("c")]))
    mixed = outcomes("c", [1.0] * 29 + [0.0])
    assert not all_decided(compare([*good, *bad, *mixed], [arm("a"), arm("b"), arm("c")]))
    assert not all_decided(compare([*good, *bad], [arm("a"), arm("b"), arm("c")]))  # no trial of c
    assert not all_decided(compare(good, [arm("a")]))
    assert not all_decided(compare([*good, *bad], [arm("a"), arm("b", "stubborn")]))  # nothing to compare


def test_a_verdict_once_reached_is_kept():
    """Ten tasks show that a is better; what comes later is all the other way."""
    looks = planned(40, 4)
    early = looks.seen(1)
    records = [
        Record(name, "s", "d", task, 0, 0, "scored", scores={"accuracy": float((name == "a") == (task in early))}, calls={"d": 1})
        for task in looks.order
        for name in "ab"
    ]
    arms = [arm("a"), arm("b")]

    def after(done: int) -> tuple[str, int | None]:
        here = [record for record in records if record.task in looks.order[:done]]
        at = looked(looks, Counter(record.task for record in here), 2, 0.4)
        found = compare_at_looks(here, arms, looks, at, alpha=0.4, margin=0.02)
        return next((pair.verdict.word, pair.look) for pair in found.pairs if pair.metric == "accuracy")

    assert after(5) == ("undecided", None)
    assert {after(done) for done in (10, 15, 20, 40)} == {("better", 1)}
    assert compare(records, arms, alpha=0.4).pairs[0].verdict.word == "worse"
