"""Sizes worked out from pilots of every kind: one arm or several, one trial per task or more, nothing to see, no price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.size.conftest import Draw, often, plan, sized, solves, warned
from whichloop.experiments.size.doc import size_doc
from whichloop.experiments.size.pilot import as_shares
from whichloop.metrics.power import difference_power, equivalence_power, pass_power, same_loop, spread
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, TaskValues, task_values
from whichloop.metrics.sums import PairedSums
from whichloop.runs.store.files import RunError


def test_the_sizes_have_the_power_that_was_wanted(pilot):
    found = pilot({"a": often(1, 1, 0.8, 0.3), "b": often(1, 0.9, 0.8, 0.5)})
    made = sized(found, margin=0.05, power=0.9)
    values = {arm: task_values([r for r in found.records if r.arm == arm], METRICS["accuracy"]) for arm in "ab"}
    pair = spread(values["a"], values["b"])
    assert pair is not None
    for one in plan(made, "compare").sizes:
        equal, apart = (pair.plausible(pair.variance(one.repeats, shift)).tolist() for shift in (0.0, 0.05))
        enough = []
        for tasks in (one.tasks, one.tasks - 1):
            within = [equivalence_power(tasks, 0.0, variance, 0.05) for variance in equal]
            shown = [difference_power(tasks, 0.05, variance, step=1 / one.repeats) for variance in apart]
            enough.append(min(sum(within) / len(within), sum(shown) / len(shown)) >= 0.9)
        assert enough == [True, False]
    loops = [same_loop(values[arm]) for arm in "ab"]
    for one in plan(made, "gate").sizes:
        powers = [pass_power(one.tasks, 0.0, loop.variance(one.repeats), 0.05) for loop in loops if loop is not None]
        assert 1 - sum(1 - power for power in powers) >= 0.9


def test_more_is_needed_for_less_margin_more_power_and_a_lower_level(pilot):
    found = pilot({"a": solves(0.8), "b": solves(0.7)})

    def trials(**wanted: Any) -> list[int]:
        made = sized(found, **({"margin": 0.05} | wanted))
        return [one.sizes[0].trials for one in made.plans]

    for more in ({"margin": 0.03}, {"power": 0.95}, {"alpha": 0.01}):
        assert all(then > now for then, now in zip(trials(**more), trials(), strict=True))


@given(amounts=st.lists(st.lists(st.floats(1, 1e6), min_size=2, max_size=2), min_size=2, max_size=20), more=st.floats(0.98, 1.02))
def test_shares_differ_by_the_ratio_of_the_sums_that_the_gate_takes(amounts, more):
    names = [str(place) for place in range(len(amounts))]
    a = TaskValues(dict(zip(names, amounts, strict=True)), dict.fromkeys(names, ""))
    b = TaskValues({task: [more * value for value in found] for task, found in a.values.items()}, a.clusters)
    whole = sum(a.means.values()) / len(names)
    d = sum(as_shares(b, whole).means.values()) / len(names) - sum(as_shares(a).means.values()) / len(names)
    ratio = PairedSums([*b.means.values()], [*a.means.values()]).value
    assert d == pytest.approx(math.log(ratio), abs=3e-4)


def test_templates_are_the_units(pilot):
    draws = {"a": often(1, 1, 0, 1), "b": often(1, 0, 0, 1)}
    alone = sized(pilot(draws, tasks=40), margin=0.1)
    shared: dict[str, Draw] = {
        name: lambda rng, task, draw=draw: draw(rng, task // 10)  # type: ignore[misc]
        for name, draw in draws.items()
    }
    clustered = sized(pilot(shared, tasks=400, change=lambda r: replace(r, cluster=str(int(r.task[1:]) // 10))), margin=0.1)
    tasks = [next(one.tasks for one in plan(made, "compare").sizes if one.repeats == 1) for made in (alone, clustered)]
    assert tasks[1] == 10 * tasks[0]
    assert warned(clustered)["clusters"] == "400 tasks in 40 clusters count like 40 independent ones"
    assert [one.clusters for one in plan(clustered, "compare").sizes] == [one.tasks for one in plan(alone, "compare").sizes]
    assert (alone.pilot.clusters, clustered.pilot.clusters) == (None, 40)
    assert {one.clusters for one in plan(alone, "gate").sizes} == {None}
    assert " in 40 clusters × 2" in size_doc(clustered).title
    assert "clusters" in size_doc(clustered).tables[0].columns


def test_cost_is_trials_times_what_one_took_and_is_shared_by_the_places(pilot):
    made = sized(pilot({"a": solves(0.8), "b": solves(0.7)}, concurrency=16), margin=0.1)
    for purpose in ("compare", "gate"):
        sizes = plan(made, purpose).sizes
        assert [one.trials for one in sizes] == sorted(one.trials for one in sizes)
        for one in sizes:
            assert one.trials == 2 * one.tasks * one.repeats
            assert one.lm_calls == pytest.approx(4 * one.trials)
            assert one.cost_usd == pytest.approx(0.01 * one.trials)
            assert one.seconds == pytest.approx(8 * one.trials / 16)
            assert one.tokens == pytest.approx((1_000 + 49.5) * one.trials)


def errored(record: Record) -> Record:
    return replace(record, status="errored", scores={})


NO_PILOT: list[tuple[Callable[[Record], Record | None], str, str]] = [
    (lambda r: replace(r, seconds=0.0), "seconds", "seconds is 0 in every trial"),
    (lambda r: replace(r, cost_usd=None), "cost_usd", "cost_usd is unknown in every trial"),
    *((lambda r, most=most: r if int(r.task[1:]) < most else None, "accuracy", "at least two|unknown in every") for most in (0, 1)),
]


@pytest.mark.parametrize(("change", "metric", "said"), NO_PILOT)
def test_what_is_no_pilot_for_a_metric_is_told(pilot, change, metric, said):
    with pytest.raises(RunError, match=said):
        sized(pilot({"a": solves(0.5), "b": solves(0.5)}, change=change), metric=metric)


def test_trials_that_errored_or_are_missing_and_few_tasks_are_told(pilot):
    draws = {"a": solves(0.5), "b": solves(0.5)}
    made = sized(pilot(draws, change=lambda r: errored(r) if r.task in ("t1", "t2") else r))
    assert made.pilot.tasks == 98
    assert warned(made)["errored trials"].startswith("pilot: 8 of 400 trials errored")
    made = sized(pilot(draws, change=lambda r: errored(r) if r.arm == "b" else r))
    assert "invalid" in warned(made)
    made = sized(pilot({"a": solves(0.5)}, change=lambda r: r if r.task != "t7" else None))
    assert warned(made)["incomplete"] == "pilot: incomplete: 198 of 200 trials"
    for tasks, kind in ((5, "few to plan"), (30, "small pilot")):
        made = sized(pilot({"a": often(1, 0), "b": often(0, 1)}, tasks=tasks))
        assert warned(made)[kind].startswith(f"{tasks} tasks")


def test_one_arm_alone_is_planned_for_a_gate_and_tasks_that_ran_once_with_all_that_varies(pilot):
    made = sized(pilot({"a": often(1, 0.5)}), margin=0.05)
    assert [each.purpose for each in made.plans] == ["gate"]
    assert "no pair" in warned(made)
    made = sized(pilot({"a": often(1, 1, 0), "b": often(1, 0, 0)}, repeats=1), margin=0.1)
    assert [one.repeats for one in plan(made, "compare").sizes] == [1]
    assert {one.repeats for one in plan(made, "gate").sizes} == {1, 2, 3, 5, 10}
    assert "ran once" in warned(made)
