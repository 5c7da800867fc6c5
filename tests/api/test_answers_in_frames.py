"""Every answer's numbers as DataFrames, in one way: rows agree with the objects, types hold whether or not there is a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import whichloop
from whichloop.reports.dataframes import Loaded

ROWS = [
    {"arm": arm, "task": f"t{n}", "repeat": repeat, "topic": f"k{n % 6}", "score": int((n * (skill + 3) + repeat) % 5 < 3 + skill)}
    | {"tokens": 100 + 10 * skill + n, "confidence": (n % 10) / 10, "steps": 3 + repeat}
    for skill, arm in enumerate("xy")
    for n in range(24)
    for repeat in range(2)
]
FRAMES = {
    "views": ("fronts", "budgets", "budget_pairs", "per_solved", "confidence", "reliability"),
    "why": ("causes", "divergences", "tasks", "habits"),
    "size": ("sizes", "reaches", "noise"),
    "gate": ("lines", "changes"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return whichloop.import_results(ROWS, map={"cluster": "topic"}, runs=tmp_path_factory.mktemp("runs"), name="both")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """One arm without repeats, confidence or costs: most tables are empty."""
    rows = [{"task": row["task"], "score": 1} for row in ROWS[:48:2]]
    return whichloop.import_results(rows, runs=tmp_path_factory.mktemp("runs"), name="alone")


def answers(run: Loaded, baseline: Path) -> dict[str, Any]:
    blessed = whichloop.bless(run, baseline)
    return {"views": run.views, "why": run.why(), "size": whichloop.size(run), "gate": whichloop.gate(blessed, run)}


def test_an_empty_table_has_columns_of_a_full_one(run: Loaded, alone: Loaded, tmp_path: Path) -> None:
    full, empty = answers(run, tmp_path / "full.json"), answers(alone, tmp_path / "empty.json")
    rows = 0
    for answer, names in FRAMES.items():
        for name in names:
            one, other = getattr(full[answer], name), getattr(empty[answer], name)
            assert isinstance(one, pd.DataFrame)
            assert isinstance(other, pd.DataFrame)
            assert set(other.columns) & set(one.columns) >= {*one.columns[:3]}, name
            assert not [column for column in one if one[column].dtype == object], name
            assert list(one.index) == list(range(len(one)))
            rows += len(one)
    assert rows > 50


def test_views_in_frames_are_the_views(run: Loaded) -> None:
    found, shown = run.results.views, run.views
    assert len(shown.fronts) == sum(len(front.points) for front in found.fronts)
    assert dict(zip(shown.fronts["arm"], shown.fronts["cost"], strict=True)) == pytest.approx(
        {point.arm: point.cost.value for front in found.fronts for point in front.points}
    )
    assert len(shown.budgets) == sum(len(budget.arms) for budget in found.budgets)
    assert list(shown.budget_pairs["verdict"]) == [pair.verdict.word for budget in found.budgets for pair in budget.pairs]
    assert list(shown.reliability["k"]) == [k for one in found.reliability for k in range(1, one.repeats + 1)]
    assert list(shown.reliability["pass_at"]) == [interval.value for one in found.reliability for interval in one.pass_at]
    assert list(shown.confidence["brier"]) == [one.brier.value for one in found.confidence]
    assert repr(shown).splitlines()[0] == ".fronts: 2 rows"
    assert shown.to_json() == found.to_json()


def test_sizes_in_frames_are_the_plans(run: Loaded) -> None:
    said = whichloop.size(run, margin=0.1)
    plans = said.finding.plans
    assert list(said.sizes["tasks"]) == [size.tasks for plan in plans for size in plan.sizes]
    assert list(said.sizes["clusters"]) == [size.clusters for plan in plans for size in plan.sizes]
    assert int(said.sizes["best"].sum()) == sum(plan.best is not None for plan in plans)
    assert set(said.sizes["for"]) == {"compare", "gate"}
    assert [(a, b) for a, b in zip(said.reaches["a"], said.reaches["b"].fillna(""), strict=True)] == [
        (*reach.names, "")[:2] for plan in plans for reach in plan.reaches
    ]
    assert list(said.noise["sd"]) == [noise.sd for noise in said.finding.noise]


def test_a_gates_lines_and_changes_are_in_frames(run: Loaded, tmp_path: Path) -> None:
    blessed = whichloop.bless(run, tmp_path / "base.json")
    changed = [row | {"score": 0} if row["arm"] == "x" and str(row["task"]) < "t12" else row for row in ROWS]
    later = whichloop.import_results(changed, map={"cluster": "topic"}, runs=tmp_path, name="later")
    said = whichloop.gate(blessed, later, metrics={"accuracy": 0.02, "tokens": 0.1})
    lines, judged = said.lines, said.finding
    assert list(zip(lines["arm"], lines["metric"], lines["result"], lines["reason"], strict=True)) == [
        (line.arm, line.metric, line.result, line.reason) for line in judged.lines
    ]
    assert list(lines["effect_low"]) == pytest.approx([line.effect.low for line in judged.lines], nan_ok=True)
    assert list(lines["ratio"]) == [False, True, False, True]
    assert list(said.changes["task"]) == [task.task for task in judged.tasks]
    assert set(said.changes["became"]) == {"worse"}
    assert (said.changes["now"] < said.changes["was"]).all()


def test_what_is_notable_of_tasks_and_arms_is_in_frames(run: Loaded) -> None:
    said = run.why()
    notable = [task for group in said.finding.findings for task in group.notable]
    assert len(said.tasks) == sum(len(task.solved) for task in notable)
    assert list(dict.fromkeys(said.tasks["task"])) == [task.task for task in notable]
    assert said.tasks["solved"].sum() == sum(solved for task in notable for solved, _ in task.solved.values())
    assert list(said.habits["flaky"]) == [len(arm.flaky) for group in said.finding.findings for arm in group.arms]


def test_dir_lists_public_names_alone() -> None:
    assert dir(whichloop) == getattr(whichloop, "__all__")  # noqa: B009  # which its types do not have
