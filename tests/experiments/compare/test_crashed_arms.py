"""Arms that crashed in every trial, or never asked their model: they are warnings, and have no place in the verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.caveats import caveats
from whichloop.experiments.compare.verdict import verdict
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.caveats import DEAD
from whichloop.metrics.comparison import Comparison, compare

TRIALS = 6


@pytest.fixture(scope="session")
def with_crashes(record) -> Callable[..., Comparison]:
    """Compares loops that crashed in so many of their trials, and were right in the others.

    `calls`: a trial's, to its model, but for loops that are `unasked`. `claims`: loop → trials with a wrong answer given as done.
    """

    def make(
        crashes: Mapping[str, int],
        calls: int = 2,
        *,
        unasked: Collection[str] = (),
        claims: Mapping[str, int] | None = None,
        trials: int = TRIALS,
    ) -> Comparison:
        infos = [ArmInfo(f"{loop}/clean", loop, {}, "scripted", "clean", "s") for loop in crashes]
        records = [
            record(
                arm=info.arm,
                task=f"t{task}",
                scores={"accuracy": float(task >= crashes[info.loop])},
                calls={"decide": 0 if info.loop in unasked else calls},
                false_success=task < (claims or {}).get(info.loop, 0),
                **({"stop": "crashed", "reason": f"KeyError: '{info.loop}'"} if task < crashes[info.loop] else {}),
            )
            for info in infos
            for task in range(trials)
        ]
        return compare(records, infos)

    return make


@given(
    crashes=st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from([0, 1, TRIALS - 1, TRIALS]), min_size=1),
    calls=st.integers(0, 2),
)
def test_every_dead_arm_is_a_warning_and_none_has_a_place_in_the_verdict(with_crashes, crashes, calls):
    made = with_crashes(crashes, calls)
    broken = [f"{loop}/clean" for loop, count in crashes.items() if count == TRIALS]
    unasked = [f"{loop}/clean" for loop, count in crashes.items() if count < TRIALS and not calls]
    assert [arm.info.arm for arm in made.dead_arms] == [*broken, *unasked]
    warned = {each.arms[0] for each in caveats(made) if each.code in DEAD}
    assert warned == {*broken, *unasked}
    found = verdict(made)
    alive = [loop for loop in crashes if f"{loop}/clean" not in warned]
    assert (found.decision is not None) == (len(alive) > 1 and not made.invalid)
    assert found.decision is None or set(found.decision.loops) <= set(alive)
    assert all(cell.place == "" for row in found.rows if row.loop not in alive for cell in row.cells.values())


def test_one_crash_of_many_trials_counts_as_lost_and_is_a_warning_with_its_reason(with_crashes):
    made = with_crashes({"a": 0, "b": 1})
    (b,) = [arm for arm in made.arms if arm.info.loop == "b"]
    assert (b.summary.scored, b.summary.errored, sum(b.summary.crashes.values())) == (TRIALS, 0, 1)
    assert b.summary.accuracy.value == 1 - 1 / TRIALS
    assert [each.text for each in caveats(made) if each.code == "crashed"] == ["b/clean: 1 of 6 trials crashed: 1 × KeyError: 'b'"]


@pytest.fixture(scope="session")
def with_hangs(record) -> Callable[..., Comparison]:
    """Compares loops of which each trial ended at its time limit, as each loop's trials are told."""

    def make(told: Mapping[str, str], calls: int = 0) -> Comparison:
        infos = [ArmInfo(f"{loop}/clean", loop, {}, "scripted", "clean", "s") for loop in told]
        late = {"scores": {"accuracy": 0.0}, "stop": "timeout", "calls": {"decide": calls}}
        records = [
            record(arm=info.arm, task=f"t{task}", reason=told[info.loop].format(f"4.{task}"), **late)
            for info in infos
            for task in range(TRIALS)
        ]
        return compare(records, infos)

    return make


STUCK = "the loop let nothing else run for {} s; its process was killed, and its trace lost; it was at b.py:7"


def test_a_loop_that_hangs_is_told_with_where_it_stands_and_one_that_waits_is_not(with_hangs):
    told = {each.code: each.text for each in caveats(with_hangs({"b": STUCK, "c": "no end within 3 s"}, calls=1))}
    assert told["hung"] == f"b/clean: 6 of 6 trials hung: 6 × {STUCK.format('4.0')}"
    assert told["out of time"] == "c/clean: 6 of 6 trials ran out of time: 6 × no end within 3 s"
    assert [each.code for each in caveats(with_hangs({"b": STUCK}))] == ["never asked", "hung"]
