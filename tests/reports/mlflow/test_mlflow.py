"""MLflow: what is logged is what was found, once, and a store that fails costs nothing but a line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from xml.etree import ElementTree

import psycopg
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from mlflow.utils.validation import _validate_logged_model_name, _validate_metric_name, _validate_param_name
from requests.adapters import HTTPAdapter

from loopbench.experiments.ablate import ablation
from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import Results, results
from loopbench.experiments.import_runs import ImportRequest, import_files
from loopbench.metrics.comparison import compare as metrics_of
from loopbench.metrics.record import FaultRecord, Record
from loopbench.metrics.summary import METRICS
from loopbench.metrics.trace import ModelExchange, ToolRun, Trace
from loopbench.protocol import StopReason
from loopbench.protocol.redact import public_address
from loopbench.reports import mlflow as tracking
from loopbench.reports.html.page import report_html
from loopbench.reports.mlflow import store
from loopbench.reports.mlflow.addresses import reason
from loopbench.reports.mlflow.comparison import MODEL_METRICS
from loopbench.reports.mlflow.notes import arm_note, files
from loopbench.reports.mlflow.versions import Version
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.store.traces import Traces, read_trace

# MLflow's own, at its first store
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")

LOOPS = ("bare", "bare(max_steps=3, instructions='Say \"yes\", é.')")
PROFILES = ("clean", "flaky-tools")


class Silent(Unwatched):
    """Progress that nobody looks at."""

    def finished(self, record: Record) -> None:
        return None


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Results:
    """A finished run of four arms, in a folder whose name needs quoting."""
    runs = tmp_path_factory.mktemp("tracking") / "the runs é 100%"
    config = CompareConfig(loops=LOOPS, suite="arithmetic", tasks=12, profiles=PROFILES, runs=runs, mlflow=False)
    experiment = prepare(config)
    assert compare.run(experiment, Silent()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def uri(run) -> str:
    return tracking.default_uri(run.folder.parent)


@pytest.fixture(scope="module")
def tracked(run, uri) -> tracking.Tracked:
    return tracking.log_run(run, uri, "loopbench")


@pytest.fixture(scope="module")
def client(uri, tracked) -> MlflowClient:
    return MlflowClient(tracking_uri=uri)


def children(client: MlflowClient, tracked: tracking.Tracked) -> dict[str, Any]:
    found = client.search_runs([tracked.experiment_id], f"tags.`mlflow.parentRunId` = '{tracked.parent_run_id}'")
    assert len({child.data.tags["loopbench.arm"] for child in found}) == len(found)
    return {child.data.tags["loopbench.arm"]: child for child in found}


def traces(client: MlflowClient, tracked: tracking.Tracked, run_id: str) -> list[Any]:
    found: list[Any] = client.search_traces(locations=[tracked.experiment_id], run_id=run_id)
    return found


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# --- keys, secrets, configurations ---

NAMES = st.text(max_size=300) | st.from_regex(r"[\w./ :()=-]{1,40}", fullmatch=True)


@settings(deadline=None)
@given(NAMES, NAMES)
@example("..", "../..")
@example("..a", "./a")
@example("a=1", "a 1")
def test_every_text_has_a_key_of_its_own_that_mlflow_takes(one, other):
    key = tracking.metric_key(one)
    _validate_metric_name(key)
    _validate_param_name(key)
    assert len(key) <= 250
    assert (key == tracking.metric_key(other)) == (one == other)


@pytest.mark.parametrize("plain", ["accuracy", "errors.tool.KeyError", "config.max_steps", "a b:c-d_e"])
def test_a_plain_name_is_its_own_key(plain):
    assert tracking.metric_key(plain) == plain


PASSWORDS = st.text(st.sampled_from("abcXYZ0189/@:%+-_.!?#"), min_size=8, max_size=20).map(lambda text: f"Pw{text}wP")


@settings(deadline=None)
@given(st.sampled_from(["postgresql", "mysql+pymysql", "https", "http"]), PASSWORDS)
def test_a_password_is_never_shown(scheme, password):
    for spelling in (password, quote(password, safe="")):
        address = f"{scheme}://user:{spelling}@db.example.test:5432/mlflow"
        error = RuntimeError(f"cannot reach {address}:\n password {spelling} refused; token={password} Bearer {password}")
        for shown in (
            public_address(f"see '{address}' and {address}"),
            tracking.ui_command(address),
            tracking.ui_command(f"{scheme}://db.example.test/mlflow?sslpassword={quote(password, safe='')}&a=b"),
            reason(error, address),
        ):
            assert password not in shown
            assert spelling not in shown
            assert "\n" not in shown


@pytest.mark.parametrize(
    "text", ["sqlite:////home/me@work/key=1/mlflow.db", "http://127.0.0.1:5000/#/experiments/1", "a token is missing"]
)
def test_what_is_no_secret_is_shown(text):
    assert public_address(text) == text


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{2}_[a-z]{1,6}", fullmatch=True), LITERALS, max_size=4))
def test_a_configuration_is_read_field_by_field(fields):
    text = f"Design({', '.join(f'{name}={value!r}' for name, value in fields.items())})"
    assert tracking.configuration(text) == {f"config.{name}": value for name, value in fields.items()}


@pytest.mark.parametrize("text", ["<pkg.Loop object at 0x7f>", "Loop(3)", "Loop(**x)", "", "a\x00b", "7"])
def test_a_configuration_that_is_no_call_stays_whole(text):
    assert tracking.configuration(text) == {"configuration": text}


def test_a_value_that_is_no_literal_is_kept_as_text():
    assert tracking.configuration("Loop(inner=Bare(max_steps=3), limit=inf)") == {
        "config.inner": "Bare(max_steps=3)",
        "config.limit": "inf",
    }


# --- trials and samples ---

FAULTS = st.builds(
    FaultRecord,
    st.sampled_from(["wire.empty", "tool.raises", "provider.server"]),
    st.just("decide:c1"),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def record(task: str, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": "a",
        "suite": "s",
        "suite_digest": "d",
        "task": task,
        "repeat": 0,
        "seed": 1,
        "status": "scored",
    }
    return Record(**(values | {"stop": "finished", "scores": {"accuracy": 1.0}, "trace_at": (0, 1)} | changes))


RECORDS = st.lists(
    st.builds(
        record,
        st.integers(0, 99).map(str),
        status=st.sampled_from(["scored", "errored", "excluded"]),
        stop=st.sampled_from([None, *StopReason]).map(lambda stop: None if stop is None else str(stop)),
        scores=st.sampled_from([{"accuracy": 1.0}, {"accuracy": 0.0}, {}]),
        errors=st.dictionaries(st.sampled_from(["wire", "crash", "tool.KeyError", "provider.server"]), st.integers(1, 4)),
        faults=st.lists(FAULTS, max_size=2).map(tuple),
        false_success=st.booleans(),
        answer=st.none() | st.text() | st.lists(st.integers(), max_size=2),
        cost_usd=st.none() | st.floats(0, 1),
        trace_at=st.sampled_from([None, (0, 1), (0, 1)]),
        unknown=st.sampled_from([(), ("steps", "tokens")]),
    ),
    max_size=40,
    unique_by=lambda record: record.key,
)


@settings(deadline=None)
@given(RECORDS, st.randoms(use_true_random=False))
def test_a_sample_shows_every_kind_of_failure_once_at_least(records, random):
    chosen = tracking.sample(records)
    keys = [record.key for record in chosen]
    assert len(set(keys)) == len(keys) <= tracking.MAX_TRACES
    assert all(record.trace_at is not None for record in chosen)
    traced = [record for record in records if record.trace_at is not None]
    kinds = frozenset().union(*map(tracking.shows, traced))
    if len(kinds) <= tracking.MAX_TRACES:
        assert frozenset().union(*map(tracking.shows, chosen)) == kinds
    shuffled = random.sample(records, len(records))
    assert [record.key for record in tracking.sample(shuffled)] == keys


def test_a_sample_is_filled_up_with_successes():
    records = [record(f"{number:03}") for number in range(50)]
    assert tracking.sample(records) == records[: tracking.USUAL_TRACES]
    failed = [record(f"x{number}", errors={f"tool.E{number}": 1}, scores={}) for number in range(40)]
    assert len(tracking.sample(records + failed)) == tracking.MAX_TRACES


def test_each_failure_has_a_kind_of_its_own():
    plain = tracking.shows(record("t"))
    lost = FaultRecord("tool.raises", "decide:c1", landed=True)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"stop": "max_steps"}, "stop max_steps scored"),
        ({"status": "errored", "scores": {}}, "stop finished errored"),
        ({"errors": {"wire": 2}}, "error wire"),
        ({"faults": (lost,)}, "fault tool.raises"),
        ({"scores": {"accuracy": 0.0}}, "wrong"),
        ({"scores": {"accuracy": 0.0}, "false_success": True}, "false success"),
    ]
    for changes, kind in cases:
        assert kind in tracking.shows(record("t", **changes)) - plain
    for harmless in (replace(lost, landed=False), replace(lost, absorbed=True), replace(lost, recovered=True)):
        assert tracking.shows(record("t", faults=(harmless,))) == plain


@settings(deadline=None)
@given(RECORDS)
def test_the_table_has_one_row_per_trial(records):
    table = tracking.trials_table(records)
    rows = table.to_pylist()
    assert table.schema.equals(tracking.trials_table([]).schema)
    by_key = {(r.task, r.repeat): r for r in records}
    assert [(row["task"], row["repeat"]) for row in rows] == sorted(by_key)
    for row in rows:
        known = by_key[row["task"], row["repeat"]]
        assert row["accuracy"] == (known.accuracy if known.status == "scored" else None)
        assert (row["steps"], row["tokens"]) == ((None, None) if known.unknown else (known.steps, known.tokens))
        assert json.loads(row["errors"]) == known.errors
        assert [FaultRecord(**fault) for fault in json.loads(row["faults"])] == list(known.faults)
        assert row["faults_landed"] == sum(fault.landed for fault in known.faults)
        assert row["faults_absorbed"] + row["faults_recovered"] <= row["faults_landed"]
        if known.answer is None or isinstance(known.answer, str):
            assert row["answer"] == known.answer
        else:
            assert json.loads(row["answer"]) == known.answer


def test_traces_become_spans_of_every_call(run):
    for found in run.records:
        trace = read_trace(run.folder, found)
        root, *rest = tracking.trace_spans("tr-" + "ab" * 16, trace, found)
        asks = [span for span in rest if span.span_type == "CHAT_MODEL"]
        assert len(asks) == found.lm_calls
        assert sum(span.attributes["mlflow.chat.tokenUsage"]["total_tokens"] for span in asks) == found.tokens
        assert sum(span.span_type == "TOOL" for span in rest) == sum(isinstance(event, ToolRun) for event in trace.events)
        assert len({span.span_id for span in (root, *rest)}) == len(rest) + 1
        assert {span.parent_id for span in rest} <= {root.span_id}
        assert root.parent_id is None
        assert root.inputs == trace.head.query
        assert root.outputs == found.answer
        starts = [span.start_time_ns for span in rest]
        assert starts == sorted(starts)
        assert all(root.start_time_ns <= span.start_time_ns < span.end_time_ns <= root.end_time_ns for span in rest)
        assert all(span.inputs["messages"][0]["role"] == "system" for span in asks)
        events = [event for event in trace.events if isinstance(event, ModelExchange)]
        assert [len(span.inputs["messages"]) for span in asks] == [event.same + len(event.messages) for event in events]
        assert [span.outputs["choices"][0]["message"]["content"] for span in asks] == [event.reply for event in events]


def test_a_call_that_failed_is_a_span_that_failed():
    ask = {"event": "ask", "role": "decide", "same": 0, "messages": [{"role": "user", "content": "\ud800 hi"}]}
    events = [
        ask | {"error": {"kind": "provider.server", "message": "500"}, "seconds": 0.5, "fault": "provider.server"},
        ask | {"same": 1, "messages": [], "reply": "{", "tokens": [3, 1], "wire_error": "no JSON"},
        {"event": "note", "kind": "dropped", "calls": 2, "seconds": "many"},
        ask | {"reply": "", "tokens": [3, 1], "calls": [{"id": "1", "name": "add", "arguments": "{"}]},
        {"event": "tool", "tool": "add", "arguments": {"a": 1}, "status": "error", "error_type": "KeyError", "data": "x"},
    ]
    failed = record("t", stop="crashed", reason="KeyError: 'x'", scores={"accuracy": 0.0}, started_at=1.0)
    root, lost, garbled, native, tool = tracking.trace_spans("tr-" + "0a" * 16, Trace.from_json({"events": events}), failed)
    assert [span.status.description for span in (root, lost, garbled, native, tool)] == [
        "crashed: KeyError: 'x'",
        "provider.server: 500",
        "no JSON",
        "",
        "KeyError",
    ]
    assert lost.outputs is None
    assert lost.end_time_ns - lost.start_time_ns == 500_000_000
    assert lost.attributes["loopbench.fault"] == "provider.server"
    assert garbled.inputs["messages"] == lost.inputs["messages"] == [{"role": "user", "content": "? hi"}]
    assert native.outputs["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": "{"}
    assert tool.outputs == "x"
    (note,) = root.events
    assert note.name == "dropped"
    assert json.loads(note.attributes["note"])["calls"] == 2


# --- what stands in MLflow ---


def test_the_parent_run_holds_the_comparison(run, client, tracked):
    parent = client.get_run(tracked.parent_run_id)
    assert parent.info.run_name == run.folder.name
    assert parent.info.status == "FINISHED"
    assert (parent.info.end_time - parent.info.start_time) / 1000 == pytest.approx(run.wall_s, abs=0.01)
    tags = parent.data.tags
    assert tags["loopbench.run"] == run.folder.name
    assert tags["loopbench.digest"] == run.digest
    assert tags["loopbench.complete"] == "true"
    assert tags["loopbench.suite_digest"] == run.manifest.suite.digest
    assert tags["mlflow.note.content"] == tracking.note(run)
    assert parent.data.metrics["scored"] == len(run.records)
    assert not [key for key in parent.data.metrics if ".vs." in key]  # hundreds of charts in front of the arms'
    assert all(metric.step == 0 for metric in parent.data._metric_objs)
    shown = {file.path for file in client.list_artifacts(tracked.parent_run_id)}
    assert shown == {"manifest.json", "comparison.json", "charts", "report.html"}


def test_artifacts_are_the_run_s_own_files(run, client, tracked, tmp_path):
    for name, known in (("manifest.json", run.manifest.to_json()), ("comparison.json", run.to_json())):
        got = client.download_artifacts(tracked.parent_run_id, name, str(tmp_path))
        assert json.loads(Path(got).read_text(encoding="utf-8")) == json.loads(json.dumps(known))
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
            got = tuple(metrics.get(f"{name}{end}") for end in ("", "_low", "_high"))
            assert got == (expected or (None, None, None))
        assert metrics["n"] == 12
        assert all(metric.step == 0 for metric in child.data._metric_objs)  # else MLflow draws lines of one point
        assert child.data.tags["mlflow.note.content"] == arm_note(arm, run.comparison.pairs)
        assert metrics["scored"] == summary.scored
        assert {k.removeprefix("stops."): v for k, v in metrics.items() if k.startswith("stops.")} == dict(summary.stops)
        assert {k.removeprefix("errors."): v for k, v in metrics.items() if k.startswith("errors.")} == dict(summary.errors)
        assert metrics["faults.landed"] == summary.faults.landed
        assert metrics["false_success"] == summary.false_success
        if summary.recovery is not None:
            assert metrics["recovery"] == summary.recovery.value


def test_factors_are_parameters(run, client, tracked):
    logged = children(client, tracked)
    for made in run.manifest.arms:
        params = logged[made.arm].data.params
        assert (params["loop"], params["model"], params["profile"]) == ("bare", "scripted", made.profile)
        assert params["suite"] == "arithmetic"
        assert params["seed"] == "0"
        assert params["repeats"] == "1"
        assert params["max_tool_steps"] == str(run.manifest.suite.max_tool_steps)
        assert params["version.mlflow"] == "3.17.2"
        assert params["config.max_consecutive_errors"] == "3"
    typed = [child.data.params for child in logged.values() if "option.max_steps" in child.data.params]
    assert len(typed) == len(PROFILES)
    for params in typed:
        assert params["option.max_steps"] == params["config.max_steps"] == "3"
        assert params["config.instructions"] == 'Say "yes", é.'


def test_trials_are_one_parquet_file_per_arm(run, client, tracked, tmp_path):
    for name, child in children(client, tracked).items():
        path = client.download_artifacts(child.info.run_id, "trials.parquet", str(tmp_path))
        table = pq.read_table(path)
        frame = table.to_pandas()
        records = [record for record in run.records if record.arm == name]
        assert len(frame) == len(records)
        assert frame["accuracy"].mean() == child.data.metrics["accuracy"]
        assert frame["lm_calls"].mean() == pytest.approx(child.data.metrics["lm_calls"])
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


# --- versions of loops as models ---

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
        known = "configuration" not in tracking.configuration(version.configuration)
        typed = {} if known else version.options  # a configuration that tells its fields tells what was typed as well
        return version.loop, typed, version.configuration, version.code, version.program

    assert (one.digest == other.digest) == (parts(one) == parts(other))
    _validate_logged_model_name(one.name)
    assert one.digest.startswith(one.name.rpartition("-")[2])


def models(client: MlflowClient, experiment_id: str) -> dict[str, Any]:
    """The models of an experiment, by id; each version once."""
    found = client.search_logged_models([experiment_id])
    assert len({model.tags["loopbench.version"] for model in found}) == len(found)
    return {model.model_id: model for model in found}


def test_each_version_of_a_loop_is_a_model_of_all_its_arms(run, client, tracked):
    logged, made = models(client, tracked.experiment_id), {made.arm: made for made in run.manifest.arms}
    assert len(logged) == len(LOOPS)
    shown: dict[str, set[str]] = {}
    for name, child in children(client, tracked).items():
        (given,) = client.get_run(child.info.run_id).inputs.model_inputs
        model = logged[given.model_id]
        assert model.status == "READY"
        assert model.model_type == "agent"
        assert model.tags["loopbench.loop_code"] == made[name].code
        fields = {key: value for key, value in child.data.params.items() if key.startswith("config.")}
        assert model.params == fields | {"loop": "bare"}
        assert {file.path for file in client.list_logged_model_artifacts(model.model_id)} == {"MLmodel", "loop.json"}
        own = {metric.key: metric for metric in model.metrics if metric.run_id == child.info.run_id}
        assert len(own) == sum(metric.run_id == child.info.run_id for metric in model.metrics)
        assert own.keys() == set(MODEL_METRICS) & child.data.metrics.keys()
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
def test_a_later_run_finds_the_models_again(run, uri, client, tmp_path):
    logged = []
    for name in ("first", "second"):
        shutil.copytree(run.folder, tmp_path / name)
        tracked = tracking.log_run(results(tmp_path / name), uri, "again")
        logged.append(models(client, tracked.experiment_id))
    assert logged[0].keys() == logged[1].keys()
    for model_id, model in logged[0].items():
        assert len(logged[1][model_id].metrics) == 2 * len(model.metrics)


@pytest.mark.thorough
def test_a_run_from_before_there_were_models_gets_them(run, uri, client, tmp_path):
    shutil.copytree(run.folder, tmp_path / "old")
    name = run.comparison.arms[0].info.arm
    opened = store.open_store(uri, "old", tmp_path)
    tags = {"loopbench.run": "old", "loopbench.kind": "run", "mlflow.note.content": "of old"}
    parent_id = opened.put(None, store.RunEntry("old", tags, {}, {"pair.a.vs.b": 1.0}, 0, 500))
    tags = {"loopbench.run": "old", "loopbench.arm": name, "mlflow.parentRunId": parent_id}
    right = run.comparison.arms[0].summary.means["steps"].value
    child_id = opened.put(None, store.RunEntry(name, tags, {}, {"accuracy": 0.123, "steps": right}, 0, 500))

    tracked = tracking.log_run(results(tmp_path / "old"), uri, "old")
    assert tracked.parent_run_id == parent_id
    logged = children(client, tracked)
    assert logged[name].info.run_id == child_id
    assert logged[name].data.metrics["accuracy"] == run.comparison.arms[0].summary.accuracy.value
    (given,) = client.get_run(child_id).inputs.model_inputs
    linked = {m.key: m.value for m in models(client, tracked.experiment_id)[given.model_id].metrics if m.run_id == child_id}
    assert linked["steps"] == right
    assert linked["accuracy"] == run.comparison.arms[0].summary.accuracy.value
    assert client.get_run(parent_id).data.tags["mlflow.note.content"] == tracking.note(results(tmp_path / "old"))


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
    experiment = ablation.prepare(ablation.AblationRequest("bare", ("max_steps=2,12",)), config)
    assert compare.run(experiment, Silent()) == ""
    found = results(experiment.folder)
    assert "max_steps: 2 → 12" in dict(files(found))["charts/effects.svg"]
    assert "max\\_steps 2 → 12" in tracking.note(found)


# --- notes ---


def compared(run: Results, names: Sequence[str]) -> Results:
    """The first two arms' records, again and again under other names."""
    arms = [arm.info for arm in run.comparison.arms[:2]]
    infos = [replace(arms[number % 2], arm=name, profile="clean") for number, name in enumerate(names)]
    records = [
        replace(record, arm=name)
        for number, name in enumerate(names)
        for record in run.records
        if record.arm == arms[number % 2].arm
    ]
    return replace(run, records=tuple(records), comparison=metrics_of(records, infos))


@settings(max_examples=15)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=5, unique=True))
@example(["<img src=x onerror=alert(1)>", "[a](javascript:x)", "| `b` |", "# c\n- d"])
def test_a_note_holds_names_as_text(run, names):
    found = compared(run, names)
    for said in (tracking.note(found), *(arm_note(arm, found.comparison.pairs) for arm in found.comparison.arms)):
        assert "<" not in said
        assert not re.search(r"(?<!\\)[\[`](?!report\.html)", said.replace("`report.html`", ""))
        assert all(line.startswith(("- ", "| ", "|:", "arithmetic", "")) for line in said.splitlines())
    table = [line for line in tracking.note(found).splitlines() if line.startswith("| ")]
    assert len(table) == 1 + len(names) * (len(names) - 1) // 2
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {7}


def test_a_note_of_many_arms_says_how_much_it_leaves_to_the_report(run):
    found = compared(run, [f"arm number {number}" for number in range(25)])
    said = tracking.note(found)
    assert len(said) <= store.MAX_TAG
    shown = sum(line.startswith("| arm") for line in said.splitlines())
    assert 5 < shown < 300
    assert said.endswith(f"{300 - shown} more pairs: report.html")


def test_a_note_says_first_that_no_verdict_holds(run):
    found = replace(run, comparison=replace(run.comparison, invalid=True, warnings=tuple(f"{n} of many" for n in range(9))))
    first, *_ = said = tracking.note(found).split("\n\n")
    assert first == "**This run is invalid: no verdict of it holds.**"
    assert "- 4 more warnings: report.html" in said[1]


# --- traces ---


def test_a_sample_of_traces_belongs_to_each_arm(run, client, tracked):
    for name, child in children(client, tracked).items():
        records = {record.task: record for record in run.records if record.arm == name}
        logged = traces(client, tracked, child.info.run_id)
        assert {trace.info.tags["loopbench.task"] for trace in logged} == {
            record.task for record in tracking.sample(list(records.values()))
        }
        for trace in logged:
            known = records[trace.info.tags["loopbench.task"]]
            assert trace.info.tags["loopbench.arm"] == name
            assert trace.info.tags["loopbench.stop"] == known.stop
            assert str(trace.info.state.value) == ("OK" if known.stop in ("finished", "forced") else "ERROR")
            assert sum(span.span_type == "CHAT_MODEL" for span in trace.data.spans) == known.lm_calls
            assert trace.info.token_usage["total_tokens"] == known.tokens
            assert trace.info.cost is None
            scores = {assessment.name: assessment.value for assessment in trace.info.assessments}
            assert scores["accuracy"] == known.accuracy


def test_logging_again_changes_nothing(run, uri, client, tracked):
    def everything() -> Any:
        runs = client.search_runs([tracked.experiment_id])
        return {
            run.info.run_id: (
                run.to_dictionary(),
                {key: len(client.get_metric_history(run.info.run_id, key)) for key in run.data.metrics},
                sorted(trace.info.trace_id for trace in traces(client, tracked, run.info.run_id)),
                [len(trace.info.assessments) for trace in traces(client, tracked, run.info.run_id)],
                [given.model_id for given in client.get_run(run.info.run_id).inputs.model_inputs],
            )
            for run in runs
        } | {model.model_id: model.to_dictionary() for model in models(client, tracked.experiment_id).values()}

    before = everything()
    assert len(before) == 1 + len(run.comparison.arms) + len(LOOPS)
    assert tracking.log_run(run, uri, "loopbench") == tracked
    assert everything() == before


def test_a_resumed_run_is_brought_up_to_date(run, uri, client, tmp_path):
    folder = tmp_path / run.folder.name
    shutil.copytree(run.folder, folder)
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    half = []
    for line in lines[: len(lines) // 2]:
        gone = {"errors": {"provider.gone": 1}, "retries": {"provider.gone": 2}}
        half.append(json.dumps(json.loads(line) | gone | {"attempt": 0, "trace_digest": "old"}) + "\n")
    (folder / "trials.jsonl").write_text("".join(half))
    part = tracking.log_run(results(folder), uri, "resumed")
    first = {trace.info.trace_id for trace in client.search_traces(locations=[part.experiment_id])}
    assert client.get_run(part.parent_run_id).info.status == "KILLED"
    assert client.get_run(part.parent_run_id).data.tags["loopbench.complete"] == "false"
    ids = {name: child.info.run_id for name, child in children(client, part).items()}

    (folder / "trials.jsonl").write_text("".join(lines))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"python": "another"}))
    whole = tracking.log_run(results(folder), uri, "resumed")
    assert whole == part
    parent = client.get_run(whole.parent_run_id)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["loopbench.digest"] == run.digest
    assert {name: child.info.run_id for name, child in children(client, whole).items()} == ids
    for arm in run.comparison.arms:
        metrics = client.get_run(ids[arm.info.arm]).data.metrics
        assert metrics["accuracy"] == arm.summary.accuracy.value
        assert metrics["trials"] == 12
        assert metrics["errors.provider.gone"] == metrics["retries.provider.gone"] == 0
        assert client.get_run(ids[arm.info.arm]).data.params["python"] == run.manifest.python  # a parameter is for ever
        records = [record for record in run.records if record.arm == arm.info.arm]
        logged = traces(client, whole, ids[arm.info.arm])
        assert sorted(trace.info.tags["loopbench.task"] for trace in logged) == sorted(r.task for r in tracking.sample(records))
        assert not first & {trace.info.trace_id for trace in logged}


# --- when it fails ---


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_failure_is_one_line_and_costs_nothing(run, tmp_path, capsys):
    before = content(run.folder)
    (tmp_path / "file.db").write_text("no database, but text that is long enough to be looked at\n" * 100)
    for uri, known in [
        ("foo://user:secret1@host/x", "must begin with one of http://"),
        ("./mlruns", "must begin with one of http://"),
        ("", "must begin with one of http://"),
        (f"http://user:secret1@127.0.0.1:{free_port()}", "no server answers at http://[redacted]@127.0.0.1"),
        (f"sqlite:///{tmp_path}/no/such/folder/x.db", "No such file or directory"),
        (f"sqlite:///{tmp_path}/file.db", "not a database"),
    ]:
        reason = tracking.track(run, uri, "loopbench")
        assert isinstance(reason, str)
        assert known in reason
        assert "secret1" not in reason
        assert "\n" not in reason
    assert content(run.folder) == before
    assert capsys.readouterr().out == ""


def test_a_server_that_never_answers_is_asked_once(run, monkeypatch):
    monkeypatch.setattr(store, "KNOCK_S", 0.3)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        reason = tracking.track(run, f"http://127.0.0.1:{deaf.getsockname()[1]}", "loopbench")
        deaf.setblocking(False)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()
    assert isinstance(reason, str)
    assert reason.startswith("no server answers at http://127.0.0.1")


# --- whole processes ---

LOG = """
import os, sys
def no_network(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1"):
        os.write(2, f"{event} {arguments[1]}".encode()); os._exit(7)
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", "localhost", None):
        os.write(2, f"{event} {arguments}".encode()); os._exit(7)
sys.addaudithook(no_network)
from pathlib import Path
from loopbench.reports import mlflow
from loopbench.experiments.compare.results import results
tracked = tracking.track(results(Path(sys.argv[1])), sys.argv[2], "loopbench")
assert isinstance(tracked, tracking.Tracked), tracked
assert not {"litellm", "dspy"} & set(sys.modules)
"""


@pytest.mark.thorough
def test_processes_share_a_new_store_and_leave_stdout_network_and_folder_alone(run, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    uri = f"sqlite:///{tmp_path}/new.db"
    names = ["one", "two"]
    for name in names:
        shutil.copytree(run.folder, tmp_path / name)
    command = [sys.executable, "-c", LOG]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen([*command, str(tmp_path / name), uri], cwd=here, stdout=pipe, stderr=pipe, text=True) for name in names
    ]
    said = [process.communicate(timeout=120) for process in running]
    assert said == [("", ""), ("", "")]
    assert [process.returncode for process in running] == [0, 0]
    assert list(here.iterdir()) == []
    client = MlflowClient(tracking_uri=uri)
    logged = client.search_runs([client.get_experiment_by_name("loopbench").experiment_id], "tags.`loopbench.kind` = 'run'")
    assert {run.info.run_name for run in logged} == set(names)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        got: bytes = answer.read()
        return got


@pytest.mark.thorough
def test_the_ui_command_opens_the_store_and_a_server_takes_a_run(run, uri, tracked, tmp_path, capsys):
    port = free_port()
    command = tracked.ui
    assert command == tracking.ui_command(uri)
    assert shlex.split(command)[-6:-4] == ["--backend-store-uri", uri]
    assert "--port 5000" in command
    command = command.replace("--port 5000", f"--port {port}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW", "LITELLM", "DO_NOT"))}
    address = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, shell=True, cwd=tmp_path, start_new_session=True, env=environment, stdout=log, stderr=log
        )
    try:
        wait_for(f"{address}/health")
        assert b"<html" in fetch(address)
        manifest = fetch(f"{address}/get-artifact?path=manifest.json&run_uuid={tracked.parent_run_id}")
        assert json.loads(manifest) == run.manifest.to_json()

        over_http = tracking.log_run(run, f"http://user:secret1@127.0.0.1:{port}", "served")
        assert over_http.ui == f"{address}/#/experiments/{over_http.experiment_id}/runs/{over_http.parent_run_id}"
        assert "secret1" not in over_http.uri
        assert tracking.log_run(run, address, "served").parent_run_id == over_http.parent_run_id
        client = MlflowClient(tracking_uri=address)
        assert b"<svg" in fetch(f"{address}/get-artifact?path=charts/accuracy.svg&run_uuid={over_http.parent_run_id}")
        assert len(models(client, over_http.experiment_id)) == len(LOOPS)
        logged = children(client, over_http)
        for arm in run.comparison.arms:
            child = logged[arm.info.arm]
            assert child.data.metrics["accuracy"] == arm.summary.accuracy.value
            assert [file.path for file in client.list_artifacts(child.info.run_id)] == ["trials.parquet"]
            records = [record for record in run.records if record.arm == arm.info.arm]
            found = traces(client, over_http, child.info.run_id)
            shown = {trace.info.tags["loopbench.task"] for trace in found}
            assert shown == {record.task for record in tracking.sample(records)}
            assert all(len(trace.data.spans) > 1 for trace in found)
        assert capsys.readouterr() == ("", "")
        assert "LiteLLM" not in (tmp_path / "log").read_text()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)


def wait_for(url: str) -> None:
    give_up = time.monotonic() + 90
    while True:
        try:
            fetch(url)
            return
        except (URLError, OSError):
            assert time.monotonic() < give_up, f"{url} did not come up"
            time.sleep(0.2)


# --- at scale, and other stores ---


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The address of a server with a store of its own."""
    folder = tmp_path_factory.mktemp("server")
    with served(f"sqlite:///{folder}/server.db", folder) as address:
        yield address


@contextlib.contextmanager
def served(uri: str, folder: Path) -> Iterator[str]:
    """A real `mlflow server` on loopback over a store."""
    port = free_port()
    options = [
        "--backend-store-uri",
        uri,
        "--artifacts-destination",
        str(folder / "artifacts"),
        "--workers",
        "1",
        "--port",
        str(port),
    ]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", *options]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, start_new_session=True, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)


def of_size(folder: Path, repeats: int) -> Results:
    """A run in which every trial is solved."""
    config = CompareConfig(loops=("bare",), suite="arithmetic", tasks=20, repeats=repeats, runs=folder, mlflow=False)
    experiment = prepare(config)
    assert compare.run(experiment, Silent()) == ""
    return results(experiment.folder)


@pytest.mark.thorough
def test_requests_to_a_server_do_not_grow_with_the_trials(server, tmp_path, monkeypatch):
    sent: list[str] = []
    send = HTTPAdapter.send

    def counting(adapter: HTTPAdapter, request: Any, **given: Any) -> Any:
        sent.append(f"{request.method} {request.url}")
        return send(adapter, request, **given)

    monkeypatch.setattr(HTTPAdapter, "send", counting)
    counts = []
    for repeats in (1, 40):
        found = of_size(tmp_path, repeats)
        assert len(found.records) == 20 * repeats
        sent.clear()
        tracked = tracking.log_run(found, server, f"of {repeats}")
        counts.append(Counter(line.partition(" ")[0] for line in sent if not line.endswith("/version")))  # asked once
        client = MlflowClient(tracking_uri=server)
        (child,) = children(client, tracked).values()
        assert child.data.metrics["trials"] == 20 * repeats
    assert counts[0] == counts[1]
    assert counts[0].total() > 10


def test_of_many_trials_only_the_traces_that_are_shown_are_read(uri, tmp_path, monkeypatch):
    read: list[Record] = []
    own = Traces.read

    def reading(self: Traces, record: Record) -> Any:
        read.append(record)
        return own(self, record)

    monkeypatch.setattr(Traces, "read", reading)
    tracked = tracking.log_run(of_size(tmp_path, 30), uri, "many")
    shown = MlflowClient(tracking_uri=uri).search_traces(locations=[tracked.experiment_id])
    assert len(read) == len(shown) == tracking.USUAL_TRACES


needs_postgres = pytest.mark.skipif(
    not (shutil.which("initdb") and shutil.which("postgres")), reason="needs PostgreSQL: initdb and postgres on the PATH"
)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The address of an empty database of a cluster of its own, on loopback. PostgreSQL does not run as root."""
    given: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = pwd.getpwnam("nobody")
        given = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="pg"))  # where another user may go
    server: subprocess.Popen[bytes] | None = None
    try:
        if given:
            os.chown(folder, given["user"], given["group"])
        data = str(folder / "data")
        make = ["initdb", "--pgdata", data, "--auth", "trust", "--username", "loopbench", "--encoding", "UTF8", "--no-sync"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True, **given)
        start = ["postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
        server = subprocess.Popen(start, cwd=folder, stderr=subprocess.DEVNULL, **given)
        wait_for_port(port)
        yield f"postgresql+psycopg://loopbench@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # fast shutdown: clients are sent away
            server.wait(30)
        shutil.rmtree(folder)


def wait_for_port(port: int) -> None:
    give_up = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(host="127.0.0.1", port=port, user="loopbench", dbname="postgres"):
                return
        except psycopg.OperationalError:  # it is not up, or still getting ready
            assert time.monotonic() < give_up
            time.sleep(0.1)


@needs_postgres
@pytest.mark.thorough
def test_postgresql_is_a_store_by_itself_and_below_a_server(run, postgresql, tmp_path):
    direct = tracking.log_run(run, postgresql, "direct")
    assert tracking.log_run(run, postgresql, "direct") == direct
    found = {"direct": (MlflowClient(tracking_uri=postgresql), direct)}
    with served(postgresql, tmp_path) as address:
        found["served"] = (MlflowClient(tracking_uri=address), tracking.log_run(run, address, "served"))
        for client, tracked in found.values():
            logged = children(client, tracked)
            for arm in run.comparison.arms:
                child = logged[arm.info.arm]
                assert child.data.metrics["accuracy"] == arm.summary.accuracy.value
                assert [file.path for file in client.list_artifacts(child.info.run_id)] == ["trials.parquet"]
                records = [record for record in run.records if record.arm == arm.info.arm]
                shown = {trace.info.tags["loopbench.task"] for trace in traces(client, tracked, child.info.run_id)}
                assert shown == {record.task for record in tracking.sample(records)}
