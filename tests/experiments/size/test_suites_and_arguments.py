"""What the suite has to offer a size, bad arguments, and arms that crashed in every trial, or never asked their model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.size.conftest import Draw, often, pilots_in, plan, sized, solves, warned
from whichloop.experiments.size.doc import size_doc
from whichloop.metrics.record import Record
from whichloop.runs.store.files import RunError


def test_a_suite_that_has_fewer_tasks_is_told_and_repeats_are_taken_instead(pilot):
    made = sized(pilot({"a": solves(0.8), "b": solves(0.8)}, tasks=300), margin=0.05)
    for purpose in ("compare", "gate"):
        made_plan = plan(made, purpose)
        assert any(not one.enough_tasks for one in made_plan.sizes)
        assert made_plan.best is not None
        assert made_plan.best.tasks <= 300
        assert made_plan.best == next(one for one in made_plan.sizes if one.tasks <= 300)
    table = size_doc(made).tables[0]
    enough = [row[table.columns.index("tasks there")] != "no" for row in table.texts]
    assert enough == [one.enough_tasks for each in made.plans for one in each.sizes]


def test_where_nothing_suffices_the_answer_says_so(pilot):
    found = pilot({"a": solves(0.8), "b": solves(0.8)}, tasks=50)
    facts = size_doc(sized(found, margin=0.01)).facts
    assert facts["Compare"] == facts["Gate"] == ["the suite's 50 tasks are too few"]
    facts = size_doc(sized(found, margin=1e-6)).facts
    assert facts["Compare"] == facts["Gate"] == ["no feasible number of tasks"]


def test_a_suite_that_grows_is_named_as_large_as_it_has_to_be(pilot):
    made = sized(pilot({"bare": solves(0.8)}, tasks=40, suite="arithmetic(size=40)"), margin=0.05, purposes=("gate",))
    best = plan(made, "gate").best
    assert best.suite == f"arithmetic(size={best.tasks})"
    assert size_doc(made).facts["Gate"] == [f"--repeats {best.repeats} --suite 'arithmetic(size={best.tasks})'"]
    assert made.pilot.available == 40
    there = plan(
        sized(pilot({"bare": solves(0.8)}, tasks=40, suite="arithmetic(size=40)"), margin=0.5, purposes=("gate",)), "gate"
    ).best
    assert (there.tasks <= 40, there.suite) == (True, None)
    huge = sized(pilot({"bare": solves(0.5)}, tasks=40, suite="arithmetic(size=40)"), margin=0.001, purposes=("gate",))
    assert not any(one.enough_tasks for one in plan(huge, "gate").sizes if one.tasks > 100_000)


@settings(deadline=None, max_examples=cases(12))
@given(
    shares=st.lists(st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.0]), min_size=1, max_size=4), min_size=1, max_size=3),
    tasks=st.integers(2, 12),
    repeats=st.integers(1, 3),
    gone=st.sets(st.integers(0, 11), max_size=6),
    margin=st.sampled_from([0.001, 0.02, 0.5]),
    metric=st.sampled_from(["accuracy", "steps", "tokens"]),
)
def test_whatever_the_pilot_was_it_is_an_answer_or_one_line(tmp_path_factory, shares, tasks, repeats, gone, margin, metric):
    make = pilots_in(tmp_path_factory.mktemp("runs"))
    draws: dict[str, Draw] = {f"a{i}": often(*found) for i, found in enumerate(shares)}
    found = make(draws, tasks, repeats, change=lambda r: None if int(r.task[1:]) in gone else r)
    left = {int(record.task[1:]) for record in found.records}
    if len(left) < 2:
        with pytest.raises(RunError, match=r"a pilot needs at least two|unknown in every trial"):
            sized(found, margin=margin, metric=metric)
        return
    made = sized(found, margin=margin, metric=metric)
    for found_plan in made.plans:
        assert all(one.tasks >= 2 and one.trials >= one.tasks for one in found_plan.sizes)


@settings(deadline=None, max_examples=cases(6))
@given(
    dead=st.lists(st.sampled_from(["crashed", "never asked"]), min_size=1, max_size=2),
    healthy=st.integers(0, 3),
    seed=st.integers(0, 100),
)
def test_the_sizes_are_those_of_the_arms_that_work_alone(tmp_path_factory, dead, healthy, seed):
    names = {f"dead{number}": cause for number, cause in enumerate(dead)}
    working = [f"loop{number}" for number in range(healthy)]

    def killed(record: Record) -> Record:
        if record.arm not in names:
            return record
        crash: dict[str, Any] = {"stop": "crashed", "reason": "KeyError: 'x'"} if names[record.arm] == "crashed" else {"calls": {}}
        return replace(record, scores={"accuracy": 0.0}, **crash)

    made = pilots_in(tmp_path_factory.mktemp("runs"))
    run = made(dict.fromkeys([*names, *working], solves(0.7)), tasks=30, seed=seed, change=killed)
    if not working:
        with pytest.raises(RunError, match="a pilot needs a loop that works"):
            sized(run)
        return
    whole, chosen = sized(run), sized(run, loops=tuple(working))
    assert (whole.plans, whole.same) == (chosen.plans, chosen.same)
    assert whole.warnings[1:] == chosen.warnings
    assert all(name in warned(whole)["dead arm"] for name in names)
