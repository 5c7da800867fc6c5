"""Two arms on these very tasks: an exact test over the trials of equal task and repeat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.experiments.compare.answer import answer
from loopbench.metrics.arm_info import ArmInfo
from loopbench.metrics.comparison import compare
from loopbench.metrics.within_tasks import within_tasks

SCORES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)


def trials(record, arm, scores, tasks=1):
    return [
        record(arm=arm, task=f"t{n % tasks}", repeat=n // tasks, scores={"accuracy": float(right)})
        for n, right in enumerate(scores)
    ]


@given(SCORES)
def test_turned_round_the_test_is_the_same(record, scores):
    a, b = (trials(record, arm, [pair[n] for pair in scores]) for n, arm in enumerate("ab"))
    one, other = within_tasks(a, b), within_tasks(b, a)
    assert one is not None
    assert other is not None
    assert (one.a, one.b) == (other.b, other.a)
    assert one.p == pytest.approx(other.p)
    assert one.trials == len(scores)
    if one.a == one.b:
        assert one.p == 1


def test_it_is_the_sign_test_on_the_trials_that_differ(record):
    found = within_tasks(trials(record, "a", [True] * 10 + [False] * 2), trials(record, "b", [False] * 10 + [False] * 2))
    assert found is not None
    assert (found.a, found.b, found.tasks) == (10, 0, 1)
    assert found.p == pytest.approx(2 / 2**10)


def test_without_repeats_nothing_is_known(record):
    a, b = (trials(record, arm, [True, False, True], tasks=3) for arm in "ab")
    assert within_tasks(a, b) is None
    assert within_tasks(a, []) is None


def test_an_answer_tells_what_repeats_show_of_tasks_that_are_too_few(record):
    infos = [ArmInfo(f"{loop}/rough", loop, {}, "scripted", "rough", "s") for loop in ("a", "b")]
    records = [*trials(record, "a/rough", [True] * 60, tasks=3), *trials(record, "b/rough", [False] * 60, tasks=3)]
    lines = answer(compare(records, infos)).sentences
    assert "Undecided between a and b: 3 tasks are too few to tell how many would decide; run about 50 first" in lines
    tested = "which is no chance of the repeats (exact test within tasks, p <0.001); of other tasks that says nothing"
    assert f"On these 3 tasks alone a solved 60 of 60 trials and b 0, {tested}" in lines
