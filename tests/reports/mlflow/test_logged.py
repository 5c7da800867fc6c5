"""What MLflow holds of a comparison and of a search, and that logging again adds nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.kept import put, rows
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare
from whichloop.experiments.optimize import prepare as search_prepare
from whichloop.experiments.optimize import run as search_run
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.experiments.optimize.result import OptimizationResult, optimization_result
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import optimization_title, run_title
from whichloop.reports.mlflow import log, page_of
from whichloop.reports.tracking import default_uri
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

IN_ONE_FORK = "the comparison that is logged once"
TASKS = 7
PAGE = "<!doctype html><p>The page.</p>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A finished run of four arms, in a folder whose name needs quoting."""
    runs = tmp_path_factory.mktemp("logged") / "the runs é 100%"
    loops = ("bare", "bare(max_steps=3, instructions='Say \"yes\", é.')")
    config = CompareConfig(
        loops=loops, suite="arithmetic", tasks=TASKS, profiles=("clean", "flaky-tools"), price="0.15/0.60", runs=runs, mlflow=False
    )
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def uri(run: Results) -> str:
    """The usual store, in which the run is logged."""
    uri = default_uri(run.folder.parent)
    log(run, uri, "whichloop", PAGE)
    return uri


@pytest.fixture(scope="module")
def client(uri: str) -> MlflowClient:
    return MlflowClient(tracking_uri=uri)


def logged(client: MlflowClient, experiment: str = "whichloop") -> tuple[Run, dict[str, Run]]:
    """The parent run of an experiment, and the runs below it by their arm."""
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    (parent,) = (run for run in found if "mlflow.parentRunId" not in run.data.tags)
    children = {run.data.tags["whichloop.arm"]: run for run in found if run is not parent}
    assert len(children) == len(found) - 1
    assert {run.data.tags["mlflow.parentRunId"] for run in children.values()} == {parent.info.run_id}
    return parent, children


def artifact(client: MlflowClient, run: Run, name: str, folder: Path) -> Path:
    return Path(client.download_artifacts(run.info.run_id, name, str(folder)))


def table(client: MlflowClient, run: Run, name: str, folder: Path) -> list[dict[str, Any]]:
    assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [{"path": name, "type": "table"}]
    found = json.loads(artifact(client, run, name, folder).read_text())
    return [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]


def test_the_run_above_holds_the_whole_comparison(run, uri, client, tmp_path):
    parent, children = logged(client)
    assert (parent.info.run_name, parent.info.status) == (run_title(run), "FINISHED")
    assert (parent.info.end_time - parent.info.start_time) / 1000 == pytest.approx(run.wall_s, abs=0.01)
    assert parent.data.params == {"suite": "arithmetic", "seed": "0"}
    tags = parent.data.tags
    assert (tags["whichloop.run"], tags["whichloop.digest"]) == (run.folder.name, run.digest)
    assert tags["whichloop.suite_digest"] == run.manifest.suite.digest
    assert tags["whichloop.version"] == run.manifest.packages["whichloop"]
    answer, _, rest = tags["mlflow.note.content"].partition("\n| loop |")
    assert "**Basis** " in answer  # however many rows follow, which may be cut off
    assert f"| {run.verdict.rows[0].loop} |" in rest.replace("\\", "")
    assert {file.path for file in client.list_artifacts(parent.info.run_id)} == {
        *("arms.json", "manifest.json", "report.html", "trials.parquet")
    }
    assert artifact(client, parent, "report.html", tmp_path).read_text() == PAGE
    assert artifact(client, parent, "manifest.json", tmp_path).read_bytes() == (run.folder / "manifest.json").read_bytes()
    trials = pd.read_parquet(artifact(client, parent, "trials.parquet", tmp_path))
    pd.testing.assert_frame_equal(trials, Loaded(run).trials, check_dtype=False)
    assert page_of(uri) == f"/#/experiments/{parent.info.experiment_id}/runs?viewStateShareKey=whichloop"
    for row in table(client, parent, "arms.json", tmp_path):
        assert children[row["arm"]].data.metrics == {name: row[name] for name in children[row["arm"]].data.metrics}


def test_each_arm_has_its_own_numbers_and_parameters(run, client):
    _, children = logged(client)
    assert children.keys() == {arm.info.arm for arm in run.comparison.arms}
    for arm in run.comparison.arms:
        child, summary = children[arm.info.arm], arm.summary
        metrics, params = child.data.metrics, child.data.params
        assert (child.info.run_name, child.info.status) == (arm.info.arm, "FINISHED")
        for name in ("accuracy", "cost_usd", "steps", "tokens"):
            mean = summary.means[name]
            assert [metrics[key] for key in (name, f"within.{name}_low", f"within.{name}_high")] == [
                mean.value,
                mean.low,
                mean.high,
            ]
        assert metrics["errors"] == sum(summary.errors.values()) / summary.scored
        assert (metrics["trials"], metrics["trials.scored"], metrics["trials.errored"]) == (TASKS, summary.scored, 0)
        options = {f"option.{name}": str(value) for name, value in arm.info.options.items()}
        assert params == options | {
            **{"arm": arm.info.arm, "loop": "bare", "profile": arm.info.profile, "model": "scripted"},
            **{"suite": "arithmetic", "seed": "0", "tasks": str(TASKS), "repeats": "1"},
        }
        assert sorted(metrics)[:5] == ["accuracy", "cost_usd", "errors", "steps", "tokens"]  # MLflow sorts by name
        assert all(metric.step == 0 for metric in child.data._metric_objs)  # else MLflow draws lines of one point


def test_logging_again_changes_nothing(run, uri, client):
    def everything() -> list[Any]:
        parent, children = logged(client)
        ids = [one.info.run_id for one in (parent, *children.values())]
        points = [len(client.get_metric_history(one, "accuracy")) for one in ids]
        return [parent.to_dictionary(), *(child.to_dictionary() for child in children.values()), points]

    before, theirs = everything(), mlflow.get_tracking_uri()
    log(run, uri, "whichloop", PAGE)
    assert everything() == before
    assert mlflow.get_tracking_uri() == theirs  # the user's own address and run are left alone
    assert mlflow.active_run() is None


def test_a_run_that_goes_on_keeps_its_entries_and_is_brought_up_to_date(run, uri, client, tmp_path):
    folder = tmp_path / run.folder.name
    shutil.copytree(run.folder, folder)
    put(folder, rows(folder)[: len(run.records) // 2])
    log(results(folder), uri, "resumed", PAGE)
    part, parts = logged(client, "resumed")
    assert part.info.status == "KILLED"
    log(run, uri, "resumed", PAGE)
    whole, wholes = logged(client, "resumed")
    assert (whole.info.run_id, whole.info.status) == (part.info.run_id, "FINISHED")
    assert {name: child.info.run_id for name, child in wholes.items()} == {name: child.info.run_id for name, child in parts.items()}
    assert {name: child.data.metrics for name, child in wholes.items()} == {
        name: child.data.metrics for name, child in logged(client)[1].items()
    }
    settings = run.manifest.model_copy(update={"suite": run.manifest.suite.model_copy(update={"tasks": TASKS + 1})})
    log(replace(run, manifest=settings), uri, "resumed", PAGE)  # which has more tasks: a parameter, which MLflow lets nobody change
    more, children = logged(client, "resumed")
    assert more.info.run_id == whole.info.run_id
    assert {child.data.params["tasks"] for child in children.values()} == {str(TASKS + 1)}


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> OptimizationResult:
    """A finished search of two designs, its test run."""
    typed = {
        **{"loops": ("bare", "bare(max_steps=9)"), "suite": "arithmetic(size=60)", "profiles": ("teachable",)},
        **{"optimizer": "LabeledFewShot(k=2)", "train": 4, "dev": 4, "tasks": 6, "repeats": 1, "mlflow": False},
    }
    optimization = search_prepare.prepare(load_optimize_config(None, typed | {"runs": tmp_path_factory.mktemp("searched")}))
    assert search_run.run(optimization) == ""
    return optimization_result(optimization.folder)


def test_a_search_has_the_locked_results_above_and_a_run_for_each_design(search, uri, client, tmp_path):
    log(search, uri, "searches", PAGE)
    parent, children = logged(client, "searches")
    assert (parent.info.run_name, parent.info.status) == (optimization_title(search.manifest), "FINISHED")
    assert parent.data.params["optimizer"] == search.manifest.optimizer.spec
    assert parent.data.tags["whichloop.digest"] == search.digest
    assert {file.path for file in client.list_artifacts(parent.info.run_id)} == {"designs.json", "manifest.json", "report.html"}
    assert {row["design"] for row in table(client, parent, "designs.json", tmp_path)} == children.keys()
    assert children.keys() == {design.design for design in search.designs}
    for design in search.designs:
        child, gain = children[design.design], design.gain
        metrics = child.data.metrics
        for name, wanted in (("test_before", gain.before), ("test_after", gain.after), ("gain", gain.test.difference)):
            ends = (name, f"within.{name}_low", f"within.{name}_high")
            assert [metrics[key] for key in ends] == [wanted.value, wanted.low, wanted.high]
        assert (metrics["dev_before"], metrics["dev_after"]) == (design.dev.before, design.dev.after)
        assert metrics["search.calls"] == (design.ended.search + design.ended.proposals + design.ended.evaluation).calls
        assert artifact(client, child, "optimized.json", tmp_path).read_bytes() == design.program.read_bytes()
    assert parent.data.metrics["gain.bare"] == children["bare"].data.metrics["gain"]
    assert sum(name.startswith(("test_before", "test_after", "gain")) for name in parent.data.metrics) == 6
