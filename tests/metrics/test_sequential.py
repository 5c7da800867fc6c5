"""Looking at a run on its way: what is spent, in what order tasks are asked, and that alpha is kept."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.metrics.comparison import ArmInfo, compare
from loopbench.metrics.record import Record
from loopbench.metrics.sequential import Looks, all_decided, levels, looked, spent

ALPHA = st.floats(1e-4, 0.4)


def planned(tasks: int = 10, looks: int = 3, seed: int = 0, alpha: float = 0.05) -> Looks:
    return Looks.planned([f"t{i}" for i in range(tasks)], looks, alpha, seed)


def test_lan_demets_vector():
    """Cumulative O'Brien-Fleming-type spending at five equal looks, alpha 0.05."""
    assert [spent(k / 5) for k in range(1, 6)] == pytest.approx([1.17e-5, 1.94e-3, 1.14e-2, 2.84e-2, 0.05], rel=5e-3)


@given(share=st.floats(0.01, 0.99), alpha=ALPHA)
def test_more_is_spent_the_further_a_run_has_come(share, alpha):
    assert 0 < spent(share, alpha) < spent((share + 1) / 2, alpha) <= spent(1, alpha) == alpha
    assert spent(share, alpha) < spent(share, alpha * 2)


@given(looks=st.integers(2, 20), alpha=ALPHA)
def test_the_levels_of_all_looks_add_up_to_alpha(looks, alpha):
    found = levels([look / looks for look in range(1, looks + 1)], alpha)
    assert len(found) == looks
    assert math.fsum(found) == pytest.approx(alpha)
    assert min(found) > 0
    assert 1 - min(found) / 2 < 1


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
        {"levels": [0.1]},
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
    assert found.level == looks.levels[reached if found.between else reached - 1]
    assert found.tasks == (looks.ends[reached - 1] if reached else 0)


def arm(name: str, profile: str = "clean") -> ArmInfo:
    return ArmInfo(name, name, {}, "scripted", profile, "s")


def outcomes(name: str, scores: list[float]) -> list[Record]:
    return [Record(name, "s", "d", f"t{i}", 0, 0, "scored", scores={"accuracy": score}) for i, score in enumerate(scores)]


def test_a_run_is_decided_when_every_pair_is():
    good, bad, even = outcomes("a", [1.0] * 30), outcomes("b", [0.0] * 30), outcomes("c", [1.0, 0.0] * 15)
    assert all_decided(compare([*good, *bad], [arm("a"), arm("b")]))
    assert all_decided(compare([*good, *bad, *even], [arm("a"), arm("b"), arm("c")]))
    mixed = outcomes("c", [1.0] * 29 + [0.0])
    assert not all_decided(compare([*good, *bad, *mixed], [arm("a"), arm("b"), arm("c")]))
    assert not all_decided(compare([*good, *bad], [arm("a"), arm("b"), arm("c")]))  # no trial of c
    assert not all_decided(compare(good, [arm("a")]))
    assert not all_decided(compare([*good, *bad], [arm("a"), arm("b", "stubborn")]))  # nothing to compare
