"""Sizes worked out from pilots of every kind: one arm or several, one trial per task or more, nothing to see, no price."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.experiments.compare.results import Results, results
from loopbench.experiments.size import SizeRequest, Sizing, size
from loopbench.experiments.size import tables as report
from loopbench.experiments.size.pilot import logged
from loopbench.metrics.power import difference_power, equivalence_power, pass_power, same_loop, spread
from loopbench.metrics.record import Record
from loopbench.metrics.statistics import log_ratios
from loopbench.metrics.summary import METRICS, TaskValues, task_values
from loopbench.runs.config import CompareConfig
from loopbench.runs.store.files import RunError, write_manifest_json
from loopbench.runs.store.records import TRIALS

Draw = Callable[[random.Random, int], float]


def solves(share: float) -> Draw:
    """Every task with the same chance."""
    return lambda rng, task: float(rng.random() < share)


def often(*shares: float) -> Draw:
    """Tasks with chances of their own, in turn."""
    return lambda rng, task: float(rng.random() < shares[task % len(shares)])


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[..., Results]:
    """A run directory with records made up."""
    return pilots_in(tmp_path)


def pilots_in(root: Path) -> Callable[..., Results]:

    def make(
        draws: dict[str, Draw],
        tasks: int = 100,
        repeats: int = 2,
        *,
        seed: int = 0,
        model: str = "openai/fake",
        suite: str = "my.module:Suite",
        manifest: dict[str, Any] | None = None,
        change: Callable[[Record], Record | None] = lambda record: record,
        **config: Any,
    ) -> Results:
        rng = random.Random(seed)
        settings = CompareConfig(loops=tuple(draws), suite=suite, models=(model,), repeats=repeats, seed=seed, **config)
        folder = root / f"run-{len([*root.iterdir()])}"
        folder.mkdir()
        arms = [{"arm": name, "loop": name, "options": {}, "model": model, "profile": "clean", "code": "c"} for name in draws]
        suite_facts = {"name": suite, "version": "1", "digest": "d", "tasks": tasks}
        made = {"created": "2026-01-01T00:00:00+00:00", "config": settings.public(), "seed": seed, "versions": {}}
        made |= {"suite": suite_facts, "profiles": {"clean": "p"}, "arms": arms}
        made |= {"packages": {}, "python": "3.11", "platform": "Linux"}
        write_manifest_json(folder, made | (manifest or {}))
        lines = []
        for repeat in range(repeats):
            for task in range(tasks):
                for name, draw in draws.items():
                    record = change(trial(name, task, repeat, draw(rng, task), rng))
                    if record is not None:
                        lines.append(json.dumps(record.to_json()))
        (folder / TRIALS).write_text("".join(f"{line}\n" for line in lines))
        return results(folder)

    return make


def trial(name: str, task: int, repeat: int, score: float, rng: random.Random, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": name,
        "suite": "s",
        "suite_digest": "d",
        "task": f"t{task}",
        "repeat": repeat,
        "seed": 0,
        "status": "scored",
        "stop": "finished",
        "scores": {"accuracy": score},
        "steps": 3 + task % 3 + rng.randrange(2),
        "calls": {"decide": 4},
        "input_tokens": 900 + task,
        "output_tokens": 100,
        "cost_usd": 0.01,
        "wall_s": 8.0,
    }
    return Record(**(values | changes))


def replaced(record: Record, **changes: Any) -> Record:
    return Record.from_json(json.loads(json.dumps(record.to_json() | changes)))


def plan(found: Sizing, purpose: str) -> Any:
    return next(made for made in found.plans if made.purpose == purpose)


def sized(found: Results, **wanted: Any) -> Sizing:
    """What is said of a pilot; whatever it is, it can be printed and is JSON."""
    made = size(found, SizeRequest(**wanted))
    assert json.loads(json.dumps(made.to_json(), allow_nan=False))["run"] == str(found.folder)
    assert all(all(isinstance(cell, str) for cell in row) for table in report.tables(made) for row in table.rows)
    assert len(report.answers(made)) == len(made.plans)
    return made


# --- what it says is so ---


def test_the_sizes_have_the_power_that_was_wanted(pilot):
    found = pilot({"a": often(1, 1, 0.8, 0.3), "b": often(1, 0.9, 0.8, 0.5)})
    made = sized(found, margin=0.05, power=0.9)
    values = {arm: task_values([r for r in found.records if r.arm == arm], METRICS["accuracy"]) for arm in "ab"}
    pair = spread(values["a"], values["b"])
    assert pair is not None
    for one in plan(made, "compare").sizes:
        variance, supposed = pair.variance(one.repeats), pair.variance(one.repeats, 0.05)
        assert equivalence_power(one.tasks, 0.0, variance, 0.05) >= 0.9
        assert difference_power(one.tasks, 0.05, supposed, step=1 / one.repeats) >= 0.9
        fewer = one.tasks - 1
        enough = equivalence_power(fewer, 0.0, variance, 0.05) >= 0.9
        assert not (enough and difference_power(fewer, 0.05, supposed, step=1 / one.repeats) >= 0.9)
    loops = [same_loop(values[arm]) for arm in "ab"]
    for one in plan(made, "gate").sizes:
        powers = [pass_power(one.tasks, 0.0, loop.variance(one.repeats), 0.05) for loop in loops if loop is not None]
        assert 1 - sum(1 - power for power in powers) >= 0.9


def test_cost_is_trials_times_what_one_took(pilot):
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


def test_more_is_needed_for_less_margin_more_power_and_a_lower_level(pilot):
    found = pilot({"a": solves(0.8), "b": solves(0.7)})

    def trials(**wanted: Any) -> list[int]:
        made = sized(found, **({"margin": 0.05} | wanted))
        return [one.sizes[0].trials for one in made.plans]

    for more in ({"margin": 0.03}, {"power": 0.95}, {"alpha": 0.01}):
        assert all(then > now for then, now in zip(trials(**more), trials(), strict=True))


def test_the_noise_is_what_two_runs_differ_by(pilot):
    """p = 1/2 everywhere: 100 tasks x 2 trials, two runs: sqrt(2 · 1/4 / 200)."""
    made = sized(pilot({"a": solves(0.5)}, tasks=400))
    (noise,) = made.noise
    assert noise.sd == pytest.approx(math.sqrt(2 * 0.25 / 800), rel=0.1)
    assert noise.band == pytest.approx(1.96 * noise.sd, rel=1e-3)
    assert not noise.at_most


def test_a_second_run_is_measured(pilot):
    first, second = pilot({"a": solves(0.5)}, repeats=1), pilot({"a": solves(0.5)}, repeats=1, seed=1)
    alone, both = size(first, SizeRequest()), size(first, SizeRequest(), second)
    assert alone.noise[0].at_most
    assert alone.noise[0].again is None
    assert not both.noise[0].at_most
    difference = sum(r.accuracy for r in second.records) / 100 - sum(r.accuracy for r in first.records) / 100
    assert both.noise[0].again == pytest.approx(difference)
    assert both.noise[0].sd == pytest.approx(alone.noise[0].sd, rel=0.3)
    assert "the second run differed by" in report.tables(both)[-1].columns
    assert not any("something else has changed" in doubt for doubt in both.doubts)


def test_a_second_run_that_differs_by_more_than_chance_is_told(pilot):
    found = size(pilot({"a": solves(0.9)}), SizeRequest(), pilot({"a": solves(0.4)}, seed=1))
    assert any("a: the two runs differ by more than fresh seeds explain" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tasks": 100, "repeats": 3}, "another number of repeats"),
        ({"manifest": {"profiles": {"clean": "q"}}}, "another set of fault profiles"),
        ({"draws": {"b": solves(0.5)}}, "another set of arms"),
        ({"manifest": {"suite": {"name": "s", "version": "1", "digest": "e", "tasks": 100}}}, "another suite"),
    ],
)
def test_a_second_run_of_something_else_is_refused(pilot, changes, says):
    other = pilot(**({"draws": {"a": solves(0.5)}, "seed": 1} | changes))
    with pytest.raises(ValueError, match=f"--again: .* is not a second run of .*: it has {says}"):
        size(pilot({"a": solves(0.5)}), SizeRequest(), other)


def test_the_same_run_is_no_second_one(pilot):
    found = pilot({"a": solves(0.5)})
    with pytest.raises(ValueError, match="is the same run"):
        size(found, SizeRequest(), found)
    scripted = [pilot({"a": solves(0.5)}, model="scripted") for _ in range(2)]
    with pytest.raises(ValueError, match="both runs have seed 0"):
        size(scripted[0], SizeRequest(), scripted[1])


# --- pilots of every kind ---


def test_one_arm_alone_is_planned_beside_another_design(pilot):
    made = sized(pilot({"a": often(1, 0.5)}), margin=0.05)
    (reach,) = plan(made, "compare").reaches
    assert reach.names == ("a", "another design")
    best = plan(made, "compare").sizes[0]
    assert best.trials == 2 * best.tasks * best.repeats
    assert best.cost_usd == pytest.approx(0.01 * best.trials)
    assert any("No two arms of the pilot are compared" in doubt for doubt in made.doubts)


def test_tasks_that_ran_once_are_planned_with_all_that_varies(pilot):
    made = sized(pilot({"a": often(1, 1, 0), "b": often(1, 0, 0)}, repeats=1), margin=0.1)
    assert [one.repeats for one in plan(made, "compare").sizes] == [1]
    assert {one.repeats for one in plan(made, "gate").sizes} == {1, 2, 3, 5, 10}
    assert all(noise.at_most for noise in made.noise)
    assert made.noise[0].sd == pytest.approx(math.sqrt(2 * (67 / 100) * (33 / 100) / 100), abs=1e-3)
    assert any("Tasks ran once" in doubt for doubt in made.doubts)
    assert any("at most" in cell for cell in report.tables(made)[-1].rows[0])


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_pilot_without_any_difference_asks_for_hundreds_of_tasks(pilot, repeats, share):
    made = sized(pilot({"a": solves(share), "b": solves(share)}, tasks=60, repeats=repeats))
    for purpose in ("compare", "gate"):
        least = min(one.tasks * one.repeats for one in plan(made, purpose).sizes)
        assert least > 300, purpose
    assert all(noise.sd > 0 for noise in made.noise)
    assert any("95 % sure" in doubt for doubt in made.doubts)


@pytest.mark.parametrize("metric", ["steps", "lm_calls", "tokens", "cost_usd", "nominal_usd", "seconds"])
def test_other_metrics_are_planned_as_ratios(pilot, metric):
    found = pilot({"a": solves(0.8), "b": solves(0.7)}, change=lambda r: replaced(r, nominal_usd=0.02, seconds=r.steps / 2))
    made = sized(found, metric=metric)
    assert made.is_ratio
    assert (plan(made, "compare").margin, plan(made, "gate").margin) == (0.02, 0.10)
    assert plan(made, "gate").best is not None
    assert "10.0 %" in report.answers(made)[1]


def test_amounts_that_vary_twice_as_much_take_four_times_as_many_tasks(pilot):
    def steps(by: float) -> Callable[[Record], Record]:
        return lambda r: replaced(r, steps=round(1_000 * (1 + by * (r.repeat - 0.5))))

    one, two = (sized(pilot({"a": solves(0.8)}, change=steps(by)), metric="steps", margin=0.05) for by in (0.2, 0.4))
    tasks = [next(s.tasks for s in plan(made, "gate").sizes if s.repeats == 1) for made in (one, two)]
    assert tasks[1] / tasks[0] == pytest.approx(4, rel=0.1)


@given(amounts=st.lists(st.lists(st.floats(0, 1e6), min_size=2, max_size=2), min_size=2, max_size=20), data=st.data())
def test_logarithms_are_those_that_the_gate_takes(amounts, data):
    """Of the means; a 0 counts as half the smallest one of its arm, which the gate takes of both."""
    others = [data.draw(st.permutations(task)) for task in amounts]
    a, b = (TaskValues({str(i): t for i, t in enumerate(arm)}, {str(i): "" for i in range(len(arm))}) for arm in (amounts, others))
    first, second = logged(a).means, logged(b).means
    d = [first[task] - second[task] for task in first]
    expected = log_ratios([*a.means.values()], [*b.means.values()])
    assert d == pytest.approx([*expected], abs=1e-6)


def test_a_metric_that_is_0_throughout_is_told(pilot):
    """Two arms that are compared must not be taken for two that are alone."""
    with pytest.raises(RunError, match="seconds is 0 in every trial"):
        sized(pilot({"a": solves(0.5), "b": solves(0.5)}, change=lambda r: replaced(r, seconds=0.0)), metric="seconds")


def test_a_metric_that_is_not_known_is_told(pilot):
    with pytest.raises(RunError, match="cost_usd is not known for any trial"):
        sized(pilot({"a": solves(0.5)}, change=lambda r: replaced(r, cost_usd=None)), metric="cost_usd")


def test_without_a_price_there_are_no_dollars(pilot):
    made = sized(pilot({"a": solves(0.5)}, change=lambda r: replaced(r, cost_usd=None)))
    assert plan(made, "gate").sizes[0].cost_usd is None
    assert "USD" not in report.tables(made)[0].columns
    assert any("No price is known" in doubt for doubt in made.doubts)


def test_what_a_cache_spared_is_not_counted_on(pilot):
    made = sized(pilot({"a": solves(0.5)}, change=lambda r: replaced(r, cost_usd=0.0, nominal_usd=0.05)))
    best = plan(made, "gate").sizes[0]
    assert best.cost_usd == pytest.approx(0.05 * best.trials)


def test_errored_trials_are_left_out_and_told(pilot):
    def fails(record: Record) -> Record:
        return replaced(record, status="errored", scores={}) if record.task in ("t1", "t2") else record

    made = sized(pilot({"a": solves(0.5), "b": solves(0.5)}, change=fails))
    assert made.tasks == 98
    assert any(doubt.startswith("The pilot has 8 errored trials of 400") for doubt in made.doubts)


def test_an_arm_that_was_never_scored_is_left_out(pilot):
    def fails(record: Record) -> Record:
        return replaced(record, status="errored", scores={}) if record.arm == "b" else record

    made = sized(pilot({"a": solves(0.5), "b": solves(0.5)}, change=fails))
    assert [noise.arm for noise in made.noise] == ["a"]
    assert any("The pilot is invalid" in doubt for doubt in made.doubts)


def test_an_incomplete_pilot_is_told(pilot):
    made = sized(pilot({"a": solves(0.5)}, change=lambda r: r if r.task != "t7" else None))
    assert any("The pilot is incomplete: 198 of 200 trials" in doubt for doubt in made.doubts)


@pytest.mark.parametrize("tasks", [0, 1])
def test_fewer_than_two_tasks_are_no_pilot(pilot, tasks):
    with pytest.raises(RunError, match=r"not enough for a pilot|not known for any trial"):
        sized(pilot({"a": solves(0.5)}, change=lambda r: r if int(r.task[1:]) < tasks else None))


@pytest.mark.parametrize("tasks", [2, 3, 5, 30])
def test_a_small_pilot_is_told(pilot, tasks):
    made = sized(pilot({"a": often(1, 0), "b": often(0, 1)}, tasks=tasks))
    assert any(f"{tasks} independent tasks are a small pilot" in doubt for doubt in made.doubts)


def test_templates_are_the_units(pilot):
    """Ten tasks to a template, all or none solved: ten times the tasks."""
    draws = {"a": often(1, 1, 0, 1), "b": often(1, 0, 0, 1)}
    alone = sized(pilot(draws, tasks=100), margin=0.1)
    shared: dict[str, Draw] = {
        name: lambda rng, task, draw=draw: draw(rng, task // 10)  # type: ignore[misc]
        for name, draw in draws.items()
    }
    clustered = sized(pilot(shared, tasks=1_000, change=lambda r: replaced(r, cluster=str(int(r.task[1:]) // 10))), margin=0.1)
    tasks = [next(one.tasks for one in plan(made, "compare").sizes if one.repeats == 1) for made in (alone, clustered)]
    assert tasks[1] == 10 * tasks[0]
    assert any("1000 tasks of 100 templates count like 100 independent ones" in doubt for doubt in clustered.doubts)


def test_an_imported_run_is_planned_as_far_as_it_is_known(pilot):
    def bare(record: Record) -> Record:
        return replaced(record, calls={}, input_tokens=0, output_tokens=0, cost_usd=None, wall_s=0.0, steps=0)

    made = sized(pilot({"a": solves(0.7), "b": solves(0.5)}, change=bare, manifest={"imported": {"from": [], "format": "csv"}}))
    best = min(plan(made, "compare").sizes, key=lambda one: one.trials)
    assert (best.cost_usd, best.seconds, best.tokens) == (None, None, 0)
    assert not best.enough_tasks
    assert made.suite_tasks == 100


# --- the tasks that there are ---


def test_a_suite_that_has_fewer_tasks_is_told_and_repeats_are_taken_instead(pilot):
    made = sized(pilot({"a": solves(0.8), "b": solves(0.8)}, tasks=300), margin=0.05)
    for purpose in ("compare", "gate"):
        made_plan = plan(made, purpose)
        assert any(not one.enough_tasks for one in made_plan.sizes)
        assert made_plan.best is not None
        assert made_plan.best.tasks <= 300
        assert made_plan.best == next(one for one in made_plan.sizes if one.tasks <= 300)
    assert any("the suite has fewer tasks" in row[-1] for row in report.tables(made)[0].rows)


def test_where_nothing_suffices_the_answer_says_so(pilot):
    found = pilot({"a": solves(0.8), "b": solves(0.8)}, tasks=50)
    said = report.answers(sized(found, margin=0.01))
    assert all("the suite's 50 tasks are too few" in line for line in said)
    said = report.answers(sized(found, margin=1e-6))
    assert all("no number of tasks that anyone could run is enough" in line for line in said)


def test_a_suite_that_grows_is_named_as_large_as_it_has_to_be(pilot):
    made = sized(pilot({"bare": solves(0.8)}, tasks=40, suite="arithmetic(size=40)"), margin=0.05, purposes=("gate",))
    best = plan(made, "gate").best
    assert best.suite == f"arithmetic(size={best.tasks})"
    assert f"--suite 'arithmetic(size={best.tasks})'" in report.answers(made)[0]
    assert made.suite_tasks == 40
    huge = sized(pilot({"bare": solves(0.5)}, tasks=40, suite="arithmetic(size=40)"), margin=0.001, purposes=("gate",))
    assert not any(one.enough_tasks for one in plan(huge, "gate").sizes if one.tasks > 100_000)


def test_the_first_tasks_of_a_suite_are_not_all_of_it(pilot):
    few = pilot({"bare": solves(0.8)}, tasks=40, suite="arithmetic(size=400)", manifest={})
    path = few.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["config"]["tasks"] = 40
    path.write_text(json.dumps(manifest))
    assert sized(results(few.folder)).suite_tasks == 400
    manifest["config"]["suite"] = "my.module:Suite"  # never imported, though it is named
    path.write_text(json.dumps(manifest))
    made = sized(results(few.folder))
    assert made.suite_tasks is None
    assert any("How many tasks the suite has is not known" in doubt for doubt in made.doubts)
    assert plan(made, "gate").best == plan(made, "gate").sizes[0]


def test_excluded_tasks_have_to_be_made_up_for(pilot):
    def out(record: Record) -> Record:
        return replaced(record, status="excluded", scores={}) if int(record.task[1:]) < 20 else record

    made = sized(pilot({"bare": solves(0.8)}, tasks=40, suite="arithmetic(size=40)", change=out), margin=0.1, purposes=("gate",))
    best = plan(made, "gate").best
    assert made.suite_tasks == 20
    assert best.suite == f"arithmetic(size={2 * best.tasks})"


# --- bad arguments ---


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"metric": "speed"}, "--metric: unknown metric 'speed'; there are accuracy"),
        ({"margin": 0.0}, "--margin: more than 0 and less than 1"),
        ({"margin": 1.0}, "--margin: more than 0 and less than 1"),
        ({"margin": math.nan}, "--margin"),
        ({"margin": 200.0, "metric": "steps"}, "--margin: more than 0 and less than 100"),
        ({"alpha": 0.5}, "--alpha"),
        ({"alpha": 0.0}, "--alpha"),
        ({"power": 0.4}, "--power"),
        ({"power": 1.0}, "--power"),
        ({"power": math.nan}, "--power"),
    ],
)
def test_bad_arguments_are_told_by_their_flag(pilot, wanted, says):
    with pytest.raises(ValueError, match=says):
        sized(pilot({"a": solves(0.5)}), **wanted)


@settings(deadline=None, max_examples=40)
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
        with pytest.raises(RunError, match=r"not enough for a pilot|not known for any trial"):
            sized(found, margin=margin, metric=metric)
        return
    made = sized(found, margin=margin, metric=metric)
    for found_plan in made.plans:
        assert all(one.tasks >= 2 and one.trials >= one.tasks for one in found_plan.sizes)


def test_numbers_are_written_as_people_write_them():
    assert [report.count(1240.0), report.large(950), report.large(12_345), report.large(4_560_000)] == [
        "1,240",
        "950",
        "12.3 k",
        "4.56 M",
    ]
    assert [report.dollars(v) for v in (0.0, 0.00423, 12.3, 1_230.4)] == ["$0.00", "$0.0042", "$12.30", "$1,230"]
    assert [report.duration(s) for s in (0.2, 42, 700, 12_300)] == ["under a second", "42 s", "12 min", "3.4 h"]
