"""One line of Python per question: the answer is that of the command, and it prints as its verdict."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest

import loopbench
from loopbench.api import progress as progress_module
from loopbench.api.questions import CellChoice
from loopbench.datasets import arithmetic
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.experiments.gate import bless, write_baseline
from loopbench.loops import Bare, Finish
from loopbench.metrics.judgement import Judgement
from loopbench.reports.dataframes import Loaded
from loopbench.reports.mlflow import default_uri
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched


@pytest.fixture
def quiet(tmp_path: Path) -> dict[str, Any]:
    """Settings of a small run that logs nowhere."""
    return {"runs": tmp_path / "runs", "mlflow": False, "tasks": 12}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    runs = tmp_path_factory.mktemp("runs")
    return loopbench.compare(["bare", Finish(parse_retries=0)], profiles=["flaky-format"], tasks=30, mlflow=False, runs=runs)


def test_names_and_objects_give_the_digest_of_the_command(pair: Loaded, tmp_path: Path) -> None:
    loops = ("bare", "finish(parse_retries=0)")
    config = CompareConfig(loops=loops, profiles=("flaky-format",), tasks=30, mlflow=False, runs=tmp_path)
    experiment = prepare(config)
    run(experiment, Unwatched())
    assert pair.results.digest == results(experiment.folder).digest
    assert (pair.results.folder / "report.html").is_file()


def test_a_comparison_prints_as_its_verdict(pair: Loaded) -> None:
    first, *rest = repr(pair).splitlines()
    assert "2 arms, 60 trials" in first
    assert rest[: len(pair.verdicts)] == pair.verdicts
    assert pair.verdicts[0] in pair._repr_html_()


def test_one_arm_prints_its_accuracy(quiet: dict[str, Any]) -> None:
    said = repr(loopbench.compare([Bare], **quiet)).splitlines()
    assert said[1].startswith("bare/clean: accuracy 1.000 [")
    assert said[1].endswith("n = 12")


def test_why_and_size_read_a_run(pair: Loaded) -> None:
    why = loopbench.why(pair, "bare", "finish(parse_retries=0)")
    assert repr(why).splitlines()[1].startswith("bare/flaky-format against finish(parse_retries=0)/flaky-format: both solved")
    assert repr(loopbench.why(pair.results.folder)) == repr(why)
    size = loopbench.size(pair, purpose="compare")
    assert "To decide each pair within 0.020" in repr(size)
    assert "<table" in size._repr_html_()


def test_the_gate_judges_a_run_and_runs_again(pair: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, bless(pair.results))
    assert loopbench.gate(path, pair).finding.outcome == "identical"
    again = loopbench.gate(path, runs=tmp_path / "again")
    assert again.finding.outcome == "identical"
    assert repr(again).splitlines()[0].lower().startswith("identical")
    with pytest.raises(ValueError, match="seed is for a new run"):
        loopbench.gate(path, pair, seed=3)
    with pytest.raises(ValueError, match="tasks: a new run takes only"):
        loopbench.gate(path, tasks=3)


def test_an_ablation_prints_the_effect_of_each_factor(quiet: dict[str, Any]) -> None:
    cells = CellChoice(interactions=False)
    found = loopbench.ablate(Finish(), {"parse_retries": [0, 2]}, profiles=["flaky-format"], cells=cells, **quiet)
    assert repr(found).splitlines()[1].startswith("parse_retries 0 → 2: ")
    assert len(found.effects)


def test_prompts_are_optimized_in_one_line(quiet: dict[str, Any]) -> None:
    settings = quiet | {"tasks": 6, "train": 4, "dev": 4, "repeats": 1, "budget": {"calls": 60}}
    found = loopbench.optimize(["bare"], "LabeledFewShot(k=2)", profile="teachable", **settings)
    assert [design.design for design in found.finding.designs] == ["bare"]
    assert "bare" in repr(found)


@pytest.mark.thorough
def test_an_optimization_is_logged_as_by_the_command(quiet: dict[str, Any]) -> None:
    settings = quiet | {"tasks": 4, "train": 4, "dev": 4, "repeats": 1, "budget": {"calls": 60}, "mlflow": True}
    found = loopbench.optimize(["bare"], "LabeledFewShot(k=2)", profile="teachable", experiment="from-python", **settings)
    store = mlflow.MlflowClient(default_uri(quiet["runs"]))
    experiment = store.get_experiment_by_name("from-python")
    names = {run.info.run_name for run in store.search_runs([experiment.experiment_id])}
    assert found.finding.folder.name in names


def test_a_suite_object_and_a_scorer_of_ones_own(quiet: dict[str, Any]) -> None:
    def half(judgement: Judgement) -> float:
        return 0.5

    found = loopbench.compare(["bare"], suite=arithmetic.load(12), scorer=half, **quiet)
    assert set(found.trials["accuracy"]) == {0.5}


def test_it_works_where_an_event_loop_is_running(quiet: dict[str, Any]) -> None:
    async def cell() -> Loaded:
        return loopbench.compare(["bare"], **quiet)

    assert len(asyncio.run(cell()).trials) == 12


def test_an_error_comes_out_of_the_thread_beside_a_running_event_loop() -> None:
    async def cell() -> None:
        loopbench.compare(["bare"], suite="arithmetic(size=0)")

    with pytest.raises(ValueError, match="size is 0"):
        asyncio.run(cell())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loops": "bare"}, "loops: give a list"),
        ({"loops": ["bear"]}, "did you mean 'bare'"),
        ({"repaets": 3}, "^unknown field 'repaets'; did you mean 'repeats'"),
        ({"tasks": 0}, "^tasks: .* got 0$"),
        ({"trial_timeout_s": 0}, "^trial_timeout_s: .* got 0$"),
        ({"provider": {"attempts": 0}}, "^provider.attempts: .* got 0$"),
        ({"loops": ["bare", "bare"]}, "^loops: 'bare' is given twice"),
        ({"looks": 2}, "^looks end a run once every pair is decided"),
        ({"profiles": ["nowhere"]}, "nowhere"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_makes_nothing(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    made: dict[str, Any] = {"loops": ["bare"], "runs": tmp_path / "runs", "mlflow": False} | settings
    with pytest.raises(ValueError, match=message) as raised:
        loopbench.compare(**made)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loopbench.ablate("finish", {}), "^factors: give at least one"),
        (lambda: loopbench.ablate("finish", {"parse_retries": [0]}), "^factors: parse_retries: give two values or more"),
        (
            lambda: loopbench.ablate("finish", {"parse_retries": [0, 1]}, cells=CellChoice(most_trials=0)),
            "^most_trials: it must be at least 1, got 0",
        ),
        (lambda: loopbench.ablate("finish", {"parse_retries": [0, 1]}, tasks=0), "^tasks: .* got 0"),
        (lambda: loopbench.optimize(["bare"], tasks=0), "^tasks: .* got 0"),
        (lambda: loopbench.optimize(["bare"], threads=0), "^threads: "),
        (lambda: loopbench.optimize(["bare"], budget={"calls": 0}), "^budget.calls: "),
        (lambda: loopbench.ablate("finish", {"parse_retries": 3}), "^factors: parse_retries: give a list of values, got 3"),  # type: ignore[dict-item]
        (lambda: loopbench.gate("nowhere.json"), "^baseline: nowhere.json: No such file"),
        (lambda: loopbench.optimize(["bare"], treads=1), "^unknown field 'treads'"),
    ],
)
def test_a_mistake_names_the_setting_and_not_the_flag(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        call()
    assert "--" not in str(raised.value)


def test_a_mistake_about_a_run_names_the_setting(pair: Loaded) -> None:
    with pytest.raises(ValueError, match=r"^margin: it must be more than 0 and less than 1, got 0"):
        loopbench.size(pair, margin=0)
    with pytest.raises(ValueError, match=r"^again: .* is the same run"):
        loopbench.size(pair, again=pair)
    with pytest.raises(ValueError, match=r"^purpose: .* known: compare, gate"):
        loopbench.size(pair, purpose="gaet")  # type: ignore[arg-type]


def test_a_metric_that_is_not_known_is_refused_before_the_gate_runs_anything(pair: Loaded, tmp_path: Path) -> None:
    write_baseline(tmp_path / "baseline.json", bless(pair.results))
    with pytest.raises(ValueError, match="unknown metric 'nope'"):
        loopbench.gate(tmp_path / "baseline.json", metrics={"nope": 1.0}, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_why_wants_two_arms_or_none(pair: Loaded) -> None:
    with pytest.raises(ValueError, match="name two arms or loops"):
        loopbench.why(pair, "bare")
    with pytest.raises(ValueError, match="no arm 'bear'"):
        loopbench.why(pair, "bear", "finish(parse_retries=0)")


SCRIPT = """
import loopbench
from loopbench.experiments.gate import bless, write_baseline
from loopbench.loops import Bare


class Mine(Bare):
    pass


print(repr(loopbench.compare([Mine(max_steps=9)], tasks=3, mlflow=False, runs={runs!r})).splitlines()[1])
try:
    loopbench.compare([Mine], tasks=3, mlflow=False, workers=2, runs={runs!r})
except ValueError as error:
    print(error)
"""


def test_a_class_of_a_script_runs_and_is_refused_by_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(runs=str(tmp_path / "runs")))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    first, second = done.stdout.splitlines()
    assert first.startswith("__main__:Mine(max_steps=9)/clean: accuracy 1.000")
    assert second.startswith("Mine is defined in the running script or notebook, where worker processes cannot import it")
    assert done.stderr == ""


def test_a_notebook_shows_a_bar_that_ends_where_the_run_does(quiet: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, what: Any) -> None:
            shown.append(what._repr_html_())

    def display(what: Any, display_id: bool) -> Handle:
        assert display_id
        return Handle()

    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display)))
    loopbench.compare(["bare"], **quiet)
    assert "12/12" in shown[-1]
    assert shown[-1].startswith("<pre")
    shown.clear()
    loopbench.compare(["bare"], progress=False, **quiet)
    assert not shown
    assert progress_module.shows_progress(True)
