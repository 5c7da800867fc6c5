"""What a logged comparison holds: its runs, parameters, artifacts, traces; and logging it again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from tests.reports.mlflow.comparison.helpers import LOOPS, PROFILES, SOLVED_TASKS, TASKS, children, models, traces
from tests.sealing import reseal
from whichloop.experiments.ablate.prepare import prepare as prepare_ablation
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.metrics.summary import METRICS
from whichloop.reports import mlflow as tracking
from whichloop.reports.html.page import report_html, run_title
from whichloop.reports.mlflow.comparison import mean_key
from whichloop.reports.mlflow.notes import arm_note, files
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

IN_ONE_FORK = "the comparison that is logged once"


def test_the_parent_run_holds_the_comparison(run, client, tracked):
    parent = client.get_run(tracked.parent_run_id)
    assert parent.info.run_name == run_title(run)
    assert parent.info.run_name.endswith(" · arithmetic · clean, flaky-tools")
    assert parent.info.status == "FINISHED"
    assert (parent.info.end_time - parent.info.start_time) / 1000 == pytest.approx(run.wall_s, abs=0.01)
    tags = parent.data.tags
    assert tags["whichloop.run"] == run.folder.name
    assert tags["whichloop.digest"] == run.digest
    assert tags["whichloop.complete"] == "true"
    assert tags["whichloop.suite_digest"] == run.manifest.suite.digest
    assert tags["mlflow.note.content"] == tracking.note(run)
    assert parent.data.metrics["trials.of_run.scored"] == len(run.records)
    assert not [key for key in parent.data.metrics if ".vs." in key]  # hundreds of charts in front of the arms'
    assert all(metric.step == 0 for metric in parent.data._metric_objs)
    shown = {file.path for file in client.list_artifacts(tracked.parent_run_id)}
    assert shown == {"manifest.json", "comparison.json", "charts", "report.html"}


def test_artifacts_are_the_run_s_own_files(run, client, tracked, tmp_path):
    for name, known in (("manifest.json", run.manifest.to_json()), ("comparison.json", run.to_json())):
        got = client.download_artifacts(tracked.parent_run_id, name, str(tmp_path))
        found = json.loads(Path(got).read_text(encoding="utf-8"))
        assert {name: value for name, value in found.items() if name != "checksum"} == json.loads(json.dumps(known))
    page = client.download_artifacts(tracked.parent_run_id, "report.html", str(tmp_path))
    assert Path(page).read_text(encoding="utf-8") == report_html(run)
    assert (run.folder.parent / "mlartifacts").is_dir()


def test_charts_are_pictures_that_need_nothing_else(run, client, tracked, tmp_path):
    """MLflow shows a picture as `<img>`: one that is no XML, or asks for a file, is shown as a broken one."""
    folder = Path(client.download_artifacts(tracked.parent_run_id, "charts", str(tmp_path)))
    groups = len(PROFILES)
    costs = {f"cost{number}.svg" for number in range(1, groups + 1)}
    assert {path.name for path in folder.iterdir()} == {"accuracy.svg", "pairs.svg", "steps.svg", *costs}
    for path in folder.iterdir():
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(root.attrib["width"]) > 100
        assert root.findtext("{http://www.w3.org/2000/svg}style", "").startswith(".chart")
        assert "href" not in path.read_text(encoding="utf-8")


def test_each_arm_is_a_nested_run_with_its_numbers(run, client, tracked):
    logged = children(client, tracked)
    assert sorted(logged) == sorted(arm.info.arm for arm in run.comparison.arms)
    for arm in run.comparison.arms:
        child, summary = logged[arm.info.arm], arm.summary
        metrics = child.data.metrics
        assert child.info.run_name == arm.info.arm
        assert child.info.status == "FINISHED"
        for name in METRICS:
            interval = summary.means[name]
            expected = None if interval is None else (interval.value, interval.low, interval.high)
            mean = metrics.get(mean_key(name))
            got = (mean, *(metrics.get(f"trials.intervals.{name}_{end}") for end in ("low", "high")))
            assert got == (expected or (None, None, None))
        assert metrics["trials.counts.tasks"] == TASKS
        assert all(metric.step == 0 for metric in child.data._metric_objs)  # else MLflow draws lines of one point
        assert child.data.tags["mlflow.note.content"] == arm_note(arm, run.comparison.pairs)
        assert metrics["trials.counts.scored"] == summary.scored
        assert counted(metrics, "trials.stops.") == dict(summary.stops)
        assert counted(metrics, "trials.errors.") == dict(summary.errors)
        assert metrics["trials.faults.landed"] == summary.faults.landed
        assert metrics["trials.counts.false_success"] == summary.false_success
        if summary.recovery is not None:
            assert metrics["trials.rates.recovery"] == summary.recovery.value


def test_factors_are_parameters(run, client, tracked):
    logged = children(client, tracked)
    for made in run.manifest.arms:
        params = logged[made.arm].data.params
        assert (params["loop"], params["model"], params["profile"]) == ("bare", "scripted", made.profile)
        assert all(name in ("loop", "model", "profile") or name.startswith("option.") for name in params)
        assert logged[made.arm].data.tags["whichloop.loop_code"] == made.code
    typed = [child.data.params for child in logged.values() if "option.max_steps" in child.data.params]
    assert len(typed) == len(PROFILES)
    assert all(params["option.max_steps"] == "3" for params in typed)


def test_what_is_the_same_for_all_arms_is_a_parameter_of_the_whole_run_alone(run, client, tracked):
    params = client.get_run(tracked.parent_run_id).data.params
    assert (params["suite"], params["seed"], params["repeats"]) == ("arithmetic", "0", "1")
    assert params["max_tool_steps"] == str(run.manifest.suite.max_tool_steps)
    assert params["version.mlflow"] == "3.17.2"
    assert not {name for child in children(client, tracked).values() for name in child.data.params} & set(params)


def test_accuracy_errors_and_steps_come_first(client, tracked):
    """MLflow's comparison opens on the first metric of a run, and lists and charts metrics by name."""
    for child in children(client, tracked).values():
        assert next(metric.key for metric in child.data._metric_objs) == "accuracy"
        assert sorted(child.data.metrics)[:4] == ["accuracy", "errors_per_trial", "steps", "tokens"]
        errors = sum(counted(child.data.metrics, "trials.errors.").values())
        assert child.data.metrics["errors_per_trial"] == pytest.approx(errors / child.data.metrics["trials.counts.scored"])


def counted(metrics: dict[str, float], prefix: str) -> dict[str, float]:
    return {key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix)}


def test_trials_are_one_parquet_file_per_arm(run, client, tracked, tmp_path):
    for name, child in children(client, tracked).items():
        path = client.download_artifacts(child.info.run_id, "trials.parquet", str(tmp_path))
        table = pq.read_table(path)
        frame = table.to_pandas()
        records = [record for record in run.records if record.arm == name]
        assert len(frame) == len(records)
        assert frame["accuracy"].mean() == child.data.metrics["accuracy"]
        assert frame["lm_calls"].mean() == pytest.approx(child.data.metrics["trials.means.lm_calls"])
        assert table.equals(tracking.trials_table(records))


def test_the_suite_under_its_faults_is_an_input_under_our_digest(run, client, tracked):
    digests = set()
    for child in children(client, tracked).values():
        (given,) = client.get_run(child.info.run_id).inputs.dataset_inputs
        whole, profile = run.manifest.suite.digest, child.data.params["profile"]
        source = json.loads(given.dataset.source)
        assert source["sha256"] == whole
        assert given.dataset.name == {"clean": "arithmetic", "flaky-tools": "arithmetic, flaky-tools"}[profile]
        assert source.get("profile_sha256") == {"clean": None}.get(profile, run.manifest.profiles[profile])
        assert (given.dataset.digest == whole[:36]) == (profile == "clean")
        digests.add(given.dataset.digest)
    assert len(digests) == len(PROFILES)


def test_what_others_produced_can_be_logged(uri, client, tmp_path):
    table = tmp_path / "scores.csv"
    table.write_text("arm,task,score\na,t1,1\na,t2,0\nb,t1,1\nb,t2,1\n")
    imported = import_files([table], ImportRequest(), tmp_path / "imported")
    tracked = tracking.log_run(results(imported.folder), uri, "others")
    logged = children(client, tracked)
    assert {name: child.data.metrics["accuracy"] for name, child in logged.items()} == {"a": 0.5, "b": 1.0}
    assert len(models(client, tracked.experiment_id)) == 2


def test_an_ablation_shows_its_effects(tmp_path):
    config = CompareConfig(suite="arithmetic", tasks=6, runs=tmp_path, mlflow=False)
    experiment = prepare_ablation("bare", ("max_steps=2,12",), config)
    assert compare.run(experiment, Unwatched()) == ""
    found = results(experiment.folder)
    assert "max_steps: 2 → 12" in dict(files(found, report_html))["charts/effects.svg"]
    assert "max\\_steps: 2 → 12" in tracking.note(found)


def test_a_sample_of_traces_belongs_to_each_arm(run, client, tracked):
    for name, child in children(client, tracked).items():
        records = {record.task: record for record in run.records if record.arm == name}
        logged = traces(client, tracked, child.info.run_id)
        assert {trace.info.tags["whichloop.task"] for trace in logged} == {
            record.task for record in tracking.sample(list(records.values()))
        }
        for trace in logged:
            known = records[trace.info.tags["whichloop.task"]]
            assert trace.info.tags["whichloop.arm"] == name
            assert trace.info.tags["whichloop.stop"] == known.stop
            assert str(trace.info.state.value) == ("OK" if known.stop in ("finished", "forced") else "ERROR")
            assert sum(span.span_type == "CHAT_MODEL" for span in trace.data.spans) == known.lm_calls
            assert trace.info.token_usage["total_tokens"] == known.tokens
            assert trace.info.cost is None
            scores = {assessment.name: assessment.value for assessment in trace.info.assessments}
            assert scores["accuracy"] == known.accuracy


def test_logging_again_changes_nothing(run, uri, client, tracked):
    def everything() -> Any:
        runs = client.search_runs([tracked.experiment_id])
        return (
            {
                run.info.run_id: (
                    run.to_dictionary(),
                    sorted(trace.info.trace_id for trace in traces(client, tracked, run.info.run_id)),
                    [len(trace.info.assessments) for trace in traces(client, tracked, run.info.run_id)],
                    [given.model_id for given in client.get_run(run.info.run_id).inputs.model_inputs],
                )
                for run in runs
            }
            | {"points": points()}
            | {model.model_id: model.to_dictionary() for model in models(client, tracked.experiment_id).values()}
        )

    def points() -> int:
        """How often a metric was written. The database is asked: MLflow would be asked for each metric of each run."""
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as connection:
            (count,) = connection.execute("SELECT COUNT(*) FROM metrics").fetchone()
        return int(count)

    before = everything()
    assert len(before) == 2 + len(run.comparison.arms) + len(LOOPS)
    assert tracking.log_run(run, uri, "whichloop") == tracked
    assert everything() == before


def test_a_resumed_run_is_brought_up_to_date(short, uri, client, tmp_path):
    folder = tmp_path / short.folder.name
    shutil.copytree(short.folder, folder)
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    half = []
    for line in lines[: len(lines) // 2]:
        gone = {"errors": {"provider.gone": 1}, "retries": {"provider.gone": 2}}
        half.append(json.dumps(json.loads(line) | gone | {"attempt": 0, "trace_digest": "old"}) + "\n")
    (folder / "trials.jsonl").write_text("".join(half))
    reseal(folder / "trials.jsonl")
    part = tracking.log_run(results(folder), uri, "resumed")
    first = {trace.info.trace_id for trace in client.search_traces(locations=[part.experiment_id])}
    assert client.get_run(part.parent_run_id).info.status == "KILLED"
    assert client.get_run(part.parent_run_id).data.tags["whichloop.complete"] == "false"
    ids = {name: child.info.run_id for name, child in children(client, part).items()}

    (folder / "trials.jsonl").write_text("".join(lines))
    reseal(folder / "trials.jsonl")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"python": "another"}))
    reseal(folder / "manifest.json")
    whole = tracking.log_run(results(folder), uri, "resumed")
    assert whole == part
    parent = client.get_run(whole.parent_run_id)
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", run_title(short))
    assert parent.data.params["python"] == short.manifest.python  # a parameter is for ever
    assert parent.data.tags["whichloop.digest"] == short.digest
    assert {name: child.info.run_id for name, child in children(client, whole).items()} == ids
    for arm in short.comparison.arms:
        metrics = client.get_run(ids[arm.info.arm]).data.metrics
        assert metrics["accuracy"] == arm.summary.accuracy.value
        assert metrics["trials.counts.trials"] == SOLVED_TASKS
        assert metrics["trials.errors.provider.gone"] == metrics["trials.retries.provider.gone"] == 0
        records = [record for record in short.records if record.arm == arm.info.arm]
        logged = traces(client, whole, ids[arm.info.arm])
        assert sorted(trace.info.tags["whichloop.task"] for trace in logged) == sorted(r.task for r in tracking.sample(records))
        assert not first & {trace.info.trace_id for trace in logged}
