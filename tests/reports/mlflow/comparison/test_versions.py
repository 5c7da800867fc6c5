"""Versions of loops as MLflow's models."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_logged_model_name

from tests.reports.mlflow.comparison.helpers import LOOPS, children, models, traces
from whichloop.experiments.compare.results import results
from whichloop.protocol import render_value
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import store
from whichloop.reports.mlflow.comparison import model_keys
from whichloop.reports.mlflow.versions import Version

IN_ONE_FORK = "the comparison that is logged once"

PARTS = st.text(max_size=5)
VERSIONS = st.builds(
    Version,
    loop=PARTS,
    options=st.dictionaries(PARTS, st.integers() | PARTS, max_size=2),
    configuration=PARTS | st.sampled_from(["Bare(max_steps=3)", "Bare(max_steps=4)"]),
    code=PARTS,
    program=PARTS,
)


@given(VERSIONS, VERSIONS)
def test_a_version_is_what_a_loop_is_made_of(one, other):
    def parts(version: Version) -> Any:
        known = "configuration" not in tracking.config_fields(version.configuration)
        typed = {} if known else version.options  # a configuration that tells its fields tells what was typed as well
        return version.loop, typed, version.configuration, version.code, version.program

    assert (one.digest == other.digest) == (parts(one) == parts(other))
    _validate_logged_model_name(one.name)
    assert one.digest.startswith(one.name.rpartition("-")[2])


def test_each_version_of_a_loop_is_a_model_of_all_its_arms(run, client, tracked):
    logged, made = models(client, tracked.experiment_id), {made.arm: made for made in run.manifest.arms}
    assert len(logged) == len(LOOPS)
    shown: dict[str, set[str]] = {}
    for name, child in children(client, tracked).items():
        (given,) = client.get_run(child.info.run_id).inputs.model_inputs
        model = logged[given.model_id]
        assert model.status == "READY"
        assert model.model_type == "agent"
        assert model.tags["whichloop.loop_code"] == made[name].code
        fields = tracking.config_fields(made[name].configuration)
        assert model.params == {"loop": "bare"} | {key: render_value(value) for key, value in fields.items()}
        assert {file.path for file in client.list_logged_model_artifacts(model.model_id)} == {"MLmodel", "loop.json"}
        own = {metric.key: metric for metric in model.metrics if metric.run_id == child.info.run_id}
        assert len(own) == sum(metric.run_id == child.info.run_id for metric in model.metrics)
        assert own.keys() == model_keys() & child.data.metrics.keys()
        (dataset,) = client.get_run(child.info.run_id).inputs.dataset_inputs
        for key, metric in own.items():
            assert metric.value == child.data.metrics[key]
            assert (metric.dataset_name, metric.dataset_digest) == (dataset.dataset.name, dataset.dataset.digest)
        ids = {trace.info.trace_id for trace in traces(client, tracked, child.info.run_id)}
        assert all(
            trace.info.trace_metadata["mlflow.modelId"] == model.model_id for trace in traces(client, tracked, child.info.run_id)
        )
        shown.setdefault(model.model_id, set()).update(ids)
    for model_id, ids in shown.items():
        found = client.search_traces(
            locations=[tracked.experiment_id], filter_string=f"request_metadata.`mlflow.modelId` = '{model_id}'"
        )
        assert {trace.info.trace_id for trace in found} == ids


@pytest.mark.thorough
def test_a_later_run_finds_the_models_again(short, uri, client, tmp_path):
    logged = []
    for name in ("first", "second"):
        shutil.copytree(short.folder, tmp_path / name)
        tracked = tracking.log_run(results(tmp_path / name), uri, "again")
        logged.append(models(client, tracked.experiment_id))
    assert logged[0].keys() == logged[1].keys()
    for model_id, model in logged[0].items():
        assert len(logged[1][model_id].metrics) == 2 * len(model.metrics)


@pytest.mark.thorough
def test_a_run_from_before_there_were_models_gets_them(short, uri, client, tmp_path):
    shutil.copytree(short.folder, tmp_path / "old")
    name = short.comparison.arms[0].info.arm
    opened = store.open_store(uri, "old", tmp_path)
    tags = {"whichloop.run": "old", "whichloop.kind": "run", "mlflow.note.content": "of old"}
    parent_id = opened.put(None, store.RunEntry("old", tags, {}, {"pair.a.vs.b": 1.0}, 0, 500))
    tags = {"whichloop.run": "old", "whichloop.arm": name, "mlflow.parentRunId": parent_id}
    right = short.comparison.arms[0].summary.means["steps"].value
    child_id = opened.put(None, store.RunEntry(name, tags, {}, {"accuracy": 0.123, "steps": right}, 0, 500))

    tracked = tracking.log_run(results(tmp_path / "old"), uri, "old")
    assert tracked.parent_run_id == parent_id
    logged = children(client, tracked)
    assert logged[name].info.run_id == child_id
    assert logged[name].data.metrics["accuracy"] == short.comparison.arms[0].summary.accuracy.value
    (given,) = client.get_run(child_id).inputs.model_inputs
    linked = {m.key: m.value for m in models(client, tracked.experiment_id)[given.model_id].metrics if m.run_id == child_id}
    assert linked["steps"] == right
    assert linked["accuracy"] == short.comparison.arms[0].summary.accuracy.value
    assert client.get_run(parent_id).data.tags["mlflow.note.content"] == tracking.note(results(tmp_path / "old"))
