"""A finished run in MLflow: one parent run, a nested run per arm, their numbers and trials, and a sample of traces.

The one module that imports MLflow, and a reader only: the run directory is the result, what stands in MLflow is a view of it that
can be made again. Every call names its store and run: MLflow's global address and active run are left alone. Numbers go
in one batch per run, trials in one Parquet file per arm, traces as a sample: all of them would take longer than the trials did.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import fcntl
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from loopbench.metrics.comparison import Arm, Pair
from loopbench.metrics.record import Record
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import METRICS, PRIMARY, ArmSummary
from loopbench.protocol import StopReason, render_value
from loopbench.protocol.digest import canonical_json, digest, sha256
from loopbench.protocol.redact import MARK, USERINFO, public_address, redact

from .compare import Results
from .journal import MANIFEST, read_trace

for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",  # MLflow ignores the customary 1
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402  MLflow reads part of its environment when it is imported
from mlflow.entities import (  # noqa: E402
    AssessmentSource,
    Dataset,
    DatasetInput,
    Expectation,
    Feedback,
    InputTag,
    Metric,
    Param,
    Run,
    RunTag,
    Span,
    SpanType,
    TraceInfo,
    TraceLocation,
    TraceState,
)
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracing.client import TracingClient  # noqa: E402
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey, TraceTagKey  # noqa: E402
from mlflow.utils.credentials import get_default_host_creds  # noqa: E402
from mlflow.utils.rest_utils import http_request  # noqa: E402

SERVERS = ("http", "https")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
KNOCK_S = 5.0
"""How long a server may take to answer at all."""
MOST_PAIR_METRICS = 400
"""Numbers about pairs of arms; the primary metric's come first."""
USUAL_TRACES, MOST_TRACES = 10, 20
"""Per arm: successes fill up to the usual number, kinds of failure may go beyond it."""

# MLflow's own limits (mlflow/utils/validation.py).
MOST_PARAM, MOST_TAG, MOST_KEY, MOST_NAME, MOST_DATASET_DIGEST = 6000, 4000, 250, 250, 36
MOST_PREVIEW, MOST_REASON = 1000, 300


@dataclass(frozen=True, slots=True)
class Tracked:
    """Where a run stands in MLflow."""

    uri: str
    """Store or server, without password."""
    experiment_id: str
    parent_run_id: str
    ui: str
    """What to do to look at it: a command, or an address."""


def track(found: Results, uri: str, experiment: str) -> Tracked | str:
    """Log a run; gives the reason, one line without secrets, where that fails. The run directory is only read."""
    try:
        return log_run(found, uri, experiment)
    except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
        return _reason(error, uri)


def log_run(found: Results, uri: str, experiment: str) -> Tracked:
    """Log a run, or bring an earlier logging of it up to date: it is found again by the run directory's name.

    Raises ValueError for an address that MLflow cannot log to, ConnectionError for a server that does not answer, and whatever
    MLflow, its database and the network raise.
    """
    with _quiet():
        store = _open(uri, experiment, found.folder.resolve().parent)
        parent = store.parent(found.folder.name)
        parent_id = store.put(parent, _parent_entry(found))
        arms = store.arms(parent_id)
        for arm in found.comparison.arms:
            _log_arm(store, found, arm, parent_id, arms.get(arm.info.arm))
        store.client.log_artifact(parent_id, str(found.folder / MANIFEST))
        store.client.log_text(parent_id, json.dumps(found.to_json(), indent=2) + "\n", "comparison.json")
        store.finish(parent_id, found, found.records)
    place = f"/#/experiments/{store.experiment_id}/runs/{parent_id}" if _scheme(uri) in SERVERS else ""
    return Tracked(public_address(uri), store.experiment_id, parent_id, ui_command(uri) + place)


def _log_arm(store: _Store, found: Results, arm: Arm, parent_id: str, run: Run | None) -> None:
    records = [record for record in found.records if record.arm == arm.info.arm]
    run_id = store.put(run, _arm_entry(found, arm, records, parent_id))
    store.client.log_inputs(run_id, [_dataset(found)])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trials.parquet"
        pq.write_table(trials_table(records), path)
        store.client.log_artifact(run_id, str(path))
    _log_traces(store, found, records, run_id)
    store.finish(run_id, found, records)


# --- addresses ---


def default_uri(runs: Path) -> str:
    """A SQLite store in the folder that run directories are made in."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def ui_command(uri: str) -> str:
    """What opens MLflow's pages on a store: a command for a database, the address itself for a server.

    MLflow's job runner stays off: it takes 1.6 GB and imports LiteLLM, in which it hangs for ever where there is no network.
    """
    if _scheme(uri) in SERVERS:
        return public_address(USERINFO.sub("", uri)).rstrip("/")
    options = ["ui", "--backend-store-uri", public_address(uri), "--workers", "1", "--port", "5000"]
    return shlex.join(["env", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", *_mlflow(), *options])


def _mlflow() -> list[str]:
    """The mlflow command of this Python, by its bare name where that is the one on the PATH."""
    beside = Path(sys.executable).with_name("mlflow")
    if not beside.exists():
        return [sys.executable, "-m", "mlflow"]
    on_path = shutil.which("mlflow")
    return ["mlflow"] if on_path and Path(on_path).resolve() == beside.resolve() else [str(beside)]


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].partition("+")[0].lower()


def _reason(error: Exception, uri: str) -> str:
    text = " ".join(str(error).split())
    userinfo = USERINFO.search(uri)
    password = userinfo.group()[:-1].partition(":")[2] if userinfo else ""
    for spelling in filter(None, (password, unquote(password))):
        text = text.replace(spelling, MARK)
    text = redact(public_address(text))[:MOST_REASON]
    return text if isinstance(error, ValueError | ConnectionError) and text else f"{type(error).__name__}: {text}"


# --- the store ---


@dataclass(frozen=True, slots=True)
class Entry:
    """What one MLflow run holds."""

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: dict[str, float]
    started_ms: int
    """Unix time."""


@dataclass(frozen=True, slots=True)
class _Store:
    """One experiment of one MLflow store."""

    client: MlflowClient
    traces: TracingClient
    experiment_id: str

    def parent(self, folder: str) -> Run | None:
        """The run of a run directory, where it was logged before."""
        quote = '"' if "'" in folder else "'"
        named = f"tags.`loopbench.run` = {quote}{folder}{quote}"
        runs = self.client.search_runs([self.experiment_id], f"{named} and tags.`loopbench.kind` = 'run'", max_results=1)
        return runs[0] if runs else None

    def arms(self, parent_id: str) -> dict[str, Run]:
        """The runs of the arms that were logged before, by the arm's name."""
        runs: dict[str, Run] = {}
        token = None
        while token != "":
            page = self.client.search_runs([self.experiment_id], f"tags.`mlflow.parentRunId` = '{parent_id}'", page_token=token)
            runs |= {run.data.tags["loopbench.arm"]: run for run in page if "loopbench.arm" in run.data.tags}
            token = page.token or ""
        return runs

    def put(self, run: Run | None, entry: Entry) -> str:
        """Make the run, or write only what differs from what it holds: parameters cannot change, metrics keep a history."""
        if run is None:
            run = self.client.create_run(self.experiment_id, entry.started_ms, dict(entry.tags), entry.name)
        known = run.data
        gone = {key: 0.0 for key in known.metrics if key.startswith(_COUNTS) and key not in entry.metrics}
        now = int(time.time() * 1000)
        step = int(entry.metrics.get("trials", 0))
        metrics = {key: value for key, value in (gone | entry.metrics).items() if known.metrics.get(key) != value}
        self.client.log_batch(
            run.info.run_id,
            metrics=[Metric(key, value, now, step) for key, value in metrics.items()],
            params=[Param(key, value) for key, value in entry.params.items() if key not in known.params],
            tags=[RunTag(key, value) for key, value in entry.tags.items() if known.tags.get(key) != value],
        )
        run_id: str = run.info.run_id
        return run_id

    def finish(self, run_id: str, found: Results, records: Sequence[Record]) -> None:
        """End a run at its last trial's end; a schedule that is not through counts as killed."""
        end = max((record.started_at + record.wall_s for record in records), default=time.time())
        self.client.set_terminated(run_id, "FINISHED" if found.is_complete else "KILLED", int(end * 1000))


_COUNTS = ("errors.", "stops.")


def _open(uri: str, experiment: str, runs: Path) -> _Store:
    scheme = _scheme(uri)
    if scheme not in (*SERVERS, *DATABASES):
        known = ", ".join(f"{name}://" for name in (*SERVERS, *DATABASES))
        raise ValueError(f"tracking address {public_address(uri)!r}: it must begin with one of {known}")
    if scheme in SERVERS:
        _knock(uri)
    with _alone(uri):
        client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(experiment)
        artifacts = None if scheme in SERVERS else (runs / "mlartifacts").as_uri()
        experiment_id = client.create_experiment(experiment, artifacts) if known is None else known.experiment_id
    return _Store(client, TracingClient(uri), experiment_id)


def _knock(uri: str) -> None:
    """One short question without MLflow's retries, so that a server that is not there costs seconds, not minutes."""
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", timeout=KNOCK_S, max_retries=0, raise_on_status=False)
    except MlflowException as error:
        raise ConnectionError(f"no server answers at {public_address(uri)}") from error


@contextlib.contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Keep other processes out: MLflow's migrations fail where two of them make the tables of one new SQLite file."""
    path = uri.partition(":///")[2].partition("?")[0]
    if _scheme(uri) != "sqlite" or not path or path == ":memory:":
        yield
        return
    with Path(f"{path}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """MLflow prints addresses to stdout, which is for results, and warns of its own use of SQLAlchemy."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``noload`` loader strategy is deprecated", DeprecationWarning)
        yield


# --- what runs hold ---


def _parent_entry(found: Results) -> Entry:
    comparison = found.comparison
    config = found.manifest["config"]
    metrics = {
        "trials": len(found.records),
        "scheduled": found.scheduled,
        "scored": sum(arm.summary.scored for arm in comparison.arms),
        "errored": sum(arm.summary.errored for arm in comparison.arms),
        "excluded": sum(arm.summary.excluded for arm in comparison.arms),
        "wall_s": found.wall_s,
    }
    design = {name: ", ".join(config[name]) for name in ("loops", "models", "profiles")}
    return Entry(
        _clean(found.folder.name, MOST_NAME),
        _tags(found) | {"loopbench.kind": "run", "mlflow.note.content": _clean(verdicts(found), MOST_TAG)},
        _params(design | _setting(found)),
        _numbers(metrics | _pair_metrics(comparison.pairs)),
        _started_ms(found.records),
    )


def _arm_entry(found: Results, arm: Arm, records: Sequence[Record], parent_id: str) -> Entry:
    info = arm.info
    made = next(made for made in found.manifest["arms"] if made["arm"] == info.arm)
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile, "loop_code": made.get("code", "")}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    tags = {"loopbench.kind": "arm", "loopbench.arm": info.arm, "mlflow.parentRunId": parent_id}
    return Entry(
        _clean(info.arm, MOST_NAME),
        _tags(found) | tags,
        _params(factors | configuration(made.get("configuration", "")) | _setting(found)),
        _numbers(arm_metrics(arm.summary)),
        _started_ms(records),
    )


def _tags(found: Results) -> dict[str, str]:
    return {
        "loopbench.run": found.folder.name,
        "loopbench.digest": found.digest,
        "loopbench.complete": str(found.is_complete).lower(),
        "loopbench.suite_digest": found.manifest["suite"]["digest"],
        "mlflow.source.name": "loopbench",
        "mlflow.source.type": "LOCAL",
    }


def _setting(found: Results) -> dict[str, Any]:
    """What all arms share."""
    manifest = found.manifest
    suite, config = manifest["suite"], manifest["config"]
    made = {
        "suite": config["suite"],
        "suite_version": suite["version"],
        "tasks": suite["tasks"],
        "max_tool_steps": suite["max_tool_steps"],
        "repeats": config["repeats"],
        "seed": manifest["seed"],
        "alpha": config["alpha"],
        "margin": config["margin"],
        "python": manifest["python"],
    }
    return made | {f"version.{name}": version for name, version in manifest["packages"].items()}


def configuration(text: str) -> dict[str, Any]:
    """The fields of a loop's `repr`, as `config.<field>`; a text that is no call with named values stays whole."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return {"configuration": text}
    if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
        return {"configuration": text}
    return {f"config.{item.arg}": _literal(item.value) for item in call.keywords}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)


def arm_metrics(summary: ArmSummary) -> dict[str, float | None]:
    """An arm's numbers; a mean stands with the ends of its interval."""
    made: dict[str, float | None] = {name: getattr(summary, name) for name in ("trials", "scored", "errored", "excluded")}
    for name in METRICS:
        made |= _interval(name, getattr(summary, name))
    made["n"] = summary.accuracy.n if summary.accuracy else 0
    made |= _interval("recovery", summary.recovery) | _interval("false_success_rate", summary.false_success_rate)
    made["false_success"] = summary.false_success
    made |= {f"faults.{name}": count for name, count in asdict(summary.faults).items()}
    made |= {f"errors.{kind}": count for kind, count in summary.errors.items()}
    made |= {f"retries.{kind}": count for kind, count in summary.retries.items()}
    return made | {f"stops.{reason}": count for reason, count in summary.stops.items()}


def _interval(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {} if interval is None else {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _pair_metrics(pairs: Sequence[Pair]) -> dict[str, float | None]:
    made: dict[str, float | None] = {}
    for pair in pairs:  # the primary metric's come first
        made |= _interval(f"pair.{pair.a}.vs.{pair.b}.{pair.metric}", pair.difference)
        made[f"pair.{pair.a}.vs.{pair.b}.{pair.metric}_p_holm"] = pair.p_holm
    return dict(list(made.items())[:MOST_PAIR_METRICS])


def verdicts(found: Results) -> str:
    """What the run says, in a few lines of Markdown."""
    comparison = found.comparison
    lines = [f"{len(found.records)} of {found.scheduled} trials, suite `{found.manifest['config']['suite']}`.", ""]
    if comparison.invalid:
        lines.append("**Invalid: no verdict of this run holds.**")
    for pair in comparison.pairs:
        if pair.metric == PRIMARY:
            word = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}.get(pair.verdict.word)
            said = f"`{pair.a}` is **{word}** `{pair.b}`" if word else f"**undecided** between `{pair.a}` and `{pair.b}`"
            d = pair.difference
            small = ", within the margin" if pair.verdict.within_margin else ""
            interval = f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
            lines.append(f"- {said}{small}: {pair.metric} {interval}, p {pair.p_holm:.3g} (Holm)")
    return "\n".join([*lines, *(f"- warning: {warning}" for warning in comparison.warnings)])


def metric_key(text: str) -> str:
    """A key that MLflow takes for a metric or parameter: the text itself, else what can be kept of it and a hash.

    MLflow takes word characters, `.-: /` and relative paths in their shortest form.
    """
    if re.fullmatch(r"[/\w.\- :]{1,250}", text) and not text.startswith("..") and not {"", ".", ".."} & set(text.split("/")):
        return text
    kept = re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[: MOST_KEY - 9]
    return f"{kept}-{sha256(text)[:8]}"


def _params(values: Mapping[str, Any]) -> dict[str, str]:
    return {metric_key(name): _clean(value, MOST_PARAM) or '""' for name, value in values.items()}


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    return {metric_key(name): float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _clean(value: Any, limit: int) -> str:
    """Any value as a text that every database takes."""
    text = render_value(value).replace("\x00", "\ufffd")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _started_ms(records: Sequence[Record]) -> int:
    return int(1000 * min((record.started_at for record in records), default=time.time()))


def _dataset(found: Results) -> DatasetInput:
    """The suite, under its own digest: MLflow's would only cover the first 10,000 rows, and has room for 36 digits."""
    suite = found.manifest["suite"]
    columns = [{"name": name, "type": "string"} for name in ("task", "query", "expected")]
    dataset = Dataset(
        name=_clean(suite["name"], MOST_NAME),
        digest=suite["digest"][:MOST_DATASET_DIGEST],
        source_type="loopbench",
        source=json.dumps({"suite": found.manifest["config"]["suite"], "version": suite["version"], "sha256": suite["digest"]}),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": suite["tasks"], "max_tool_steps": suite["max_tool_steps"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


# --- trials ---

_COLUMNS = pa.schema(
    {
        "task": pa.string(), "repeat": pa.int64(), "seed": pa.int64(), "attempt": pa.int64(), "status": pa.string(),
        "reason": pa.string(), "stop": pa.string(), "accuracy": pa.float64(), "steps": pa.int64(), "lm_calls": pa.int64(),
        "tool_calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(), "tokens": pa.int64(),
        "cost_usd": pa.float64(), "nominal_usd": pa.float64(), "seconds": pa.float64(), "retries": pa.string(),
        "errors": pa.string(), "faults": pa.string(),
        "faults_landed": pa.int64(), "faults_absorbed": pa.int64(), "faults_recovered": pa.int64(), "false_success": pa.bool_(),
        "abstained": pa.bool_(), "confidence": pa.float64(), "cluster": pa.string(), "answer": pa.string(),
    }
)  # fmt: skip


def trials_table(records: Sequence[Record]) -> pa.Table:
    """One row per trial, sorted by task and repeat; mappings as JSON, the answer as text, accuracy only where scored."""
    return pa.Table.from_pylist([_row(record) for record in sorted(records, key=lambda r: r.key)], _COLUMNS)


def _row(record: Record) -> dict[str, Any]:
    row = {name: getattr(record, name, None) for name in _COLUMNS.names}
    landed = [fault for fault in record.faults if fault.landed]
    return row | {
        "reason": _clean(record.reason, MOST_PARAM),
        "accuracy": record.accuracy if record.status == "scored" else None,
        "retries": canonical_json(record.retries),
        "errors": canonical_json(record.errors),
        "faults": canonical_json([asdict(fault) for fault in record.faults]),
        "faults_landed": len(landed),
        "faults_absorbed": sum(fault.absorbed for fault in landed),
        "faults_recovered": sum(fault.recovered and not fault.absorbed for fault in landed),
        "answer": None if record.answer is None else render_value(record.answer),
    }


# --- traces ---

_ENDS_WELL = frozenset({StopReason.FINISHED, StopReason.FORCED})


def sample(records: Sequence[Record]) -> list[Record]:
    """Trials of one arm whose traces are worth a place: each kind of failure at least once, most telling first, then successes.

    At most MOST_TRACES, whatever the order of the records; trials without a trace are left out.
    """
    shown: dict[frozenset[str], Record] = {}
    traced = sorted((record for record in records if record.trace_at is not None), key=lambda record: record.key)
    for record in traced:
        shown.setdefault(shows(record), record)
    missing = frozenset().union(*shown)
    chosen: list[Record] = []
    while missing and len(chosen) < MOST_TRACES:
        kinds = max(shown, key=lambda kinds: len(kinds & missing))
        chosen.append(shown.pop(kinds))
        missing -= kinds
    keys = {record.key for record in chosen}
    successes = [r for r in traced if r.status == "scored" and r.accuracy == 1 and r.key not in keys]
    return chosen + successes[: max(0, USUAL_TRACES - len(chosen))]


def shows(record: Record) -> frozenset[str]:
    """What a trial is an example of: its end, its kinds of error and of fault not got over, a wrong answer, a false success."""
    kinds = {f"stop {record.stop} {record.status}", *(f"error {kind}" for kind in record.errors)}
    kinds |= {f"fault {fault.kind}" for fault in record.faults if fault.landed and not fault.absorbed and not fault.recovered}
    if record.status == "scored" and record.accuracy < 1:
        kinds.add("false success" if record.false_success else "wrong")
    return frozenset(kinds)


def _log_traces(store: _Store, found: Results, records: Sequence[Record], run_id: str) -> None:
    """Bring the sample up to date. A trace's id is made from its trial: one that is there stays, with people's remarks on it."""
    wanted = {_trace_id(run_id, record): record for record in sample(records)}
    page = store.client.search_traces(locations=[store.experiment_id], run_id=run_id, include_spans=False, max_results=100)
    stored = {trace.info.trace_id for trace in page if trace.info.tags.get("loopbench.run") == found.folder.name}
    stale = sorted(stored - wanted.keys())
    if stale:
        store.client.delete_traces(store.experiment_id, trace_ids=stale)
    for trace_id, record in wanted.items():
        if trace_id not in stored:
            trace = read_trace(found.folder, record)
            info = _trace_info(trace_id, trace, record)
            info.trace_location = TraceLocation.from_experiment_id(store.experiment_id)
            info.trace_metadata = {TraceMetadataKey.SOURCE_RUN: run_id}
            info.tags["loopbench.run"] = found.folder.name
            store.traces.log_spans(store.experiment_id, trace_spans(trace_id, trace, record))
            store.traces.start_trace(info)  # last: only now a search by run finds the trace, whole


def _trace_id(run_id: str, record: Record) -> str:
    return f"tr-{digest([run_id, *record.key, record.attempt, record.trace_digest])[:32]}"


def _trace_info(trace_id: str, trace: Mapping[str, Any], record: Record) -> TraceInfo:
    tags = {f"loopbench.{name}": str(getattr(record, name)) for name in ("arm", "task", "repeat", "status", "stop")}
    source = AssessmentSource(source_type="CODE", source_id="loopbench")
    assessments: list[Any] = []
    if record.status == "scored":
        assessments.append(Feedback(name=PRIMARY, value=record.accuracy, source=source, trace_id=trace_id))
    if trace.get("expected") is not None:
        expected = _clean(trace["expected"], MOST_PREVIEW)
        assessments.append(Expectation(name="expected", value=expected, source=source, trace_id=trace_id))
    return TraceInfo(
        trace_id=trace_id,
        trace_location=None,
        request_time=int(record.started_at * 1000),
        execution_duration=int(record.seconds * 1000),
        state=TraceState.ERROR if _failure(record) else TraceState.OK,
        request_preview=_clean(trace.get("query", ""), MOST_PREVIEW),
        response_preview="" if record.answer is None else _clean(record.answer, MOST_PREVIEW),
        tags={key: _clean(value, MOST_NAME) for key, value in (tags | {TraceTagKey.TRACE_NAME: record.task}).items()},
        assessments=assessments,
    )


def _failure(record: Record) -> str:
    """Why a trial came to no end of its own; empty where it did, rightly or wrongly."""
    if record.status == "scored" and record.stop in _ENDS_WELL:
        return ""
    return f"{record.stop}: {record.reason}" if record.reason else str(record.stop)


@dataclass(frozen=True, slots=True)
class _Step:
    """One span before it has a place and a time."""

    name: str
    kind: str
    inputs: Any
    outputs: Any
    error: str = ""
    more: Mapping[str, Any] | None = None
    """Attributes, as JSON values."""
    events: Sequence[Mapping[str, Any]] = ()


def trace_spans(trace_id: str, trace: Mapping[str, Any], record: Record) -> list[Span]:
    """A trial's trace as spans: the trial, below it each model call and tool call in order.

    The journal keeps the order of events and only delays from 1 ms on: shorter ones are drawn as 1 µs.
    """
    start = clock = int(record.started_at * 1e9)
    shown: dict[str, list[Any]] = {}
    spans: list[Span] = []
    notes: list[dict[str, Any]] = []
    for event in trace["events"]:
        if event["event"] == "note":
            notes.append({"name": event["kind"], "time_unix_nano": clock, "attributes": {"note": _json(event)}})
            continue
        step = _asked(event, shown) if event["event"] == "ask" else _called(event)
        end = clock + max(int(event.get("seconds", 0) * 1e9), 1000)
        spans.append(_span(trace_id, _ROOT + 1 + len(spans), step, (clock, end)))
        clock = end
    names = ("stop", "status", "scores", "expected", "details", "repeat")
    more = {f"loopbench.{name}": trace.get(name) for name in names}
    root = _Step(record.arm, SpanType.AGENT, trace.get("query"), trace.get("answer"), _failure(record), more, notes)
    return [_span(trace_id, _ROOT, root, (start, max(clock, start + int(record.seconds * 1e9)))), *spans]


def _asked(event: Mapping[str, Any], shown: dict[str, list[Any]]) -> _Step:
    """A model call, with all its messages: the trace holds those that were new.

    The model's name is left to the run: MLflow prices a span that bears one, with LiteLLM, which fetches a list of prices.
    """
    scope = f"{event['role']}/{event.get('scope', '')}"
    shown[scope] = messages = shown.get(scope, [])[: event["same"]] + list(event["messages"])
    inputs = {"messages": messages} | ({"tool_choice": event["tool_choice"]} if "tool_choice" in event else {})
    message: dict[str, Any] = {"role": "assistant", "content": event.get("reply", "")}
    if event.get("calls"):
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in event["calls"]
        ]
    used, made = event.get("tokens", (0, 0))
    more = {
        SpanAttributeKey.MESSAGE_FORMAT: "openai",
        SpanAttributeKey.CHAT_USAGE: {"input_tokens": used, "output_tokens": made, "total_tokens": used + made},
        **{f"loopbench.{name}": event[name] for name in ("fault", "move", "scope") if name in event},
    }
    failed = event.get("error")
    error = f"{failed['kind']}: {failed['message']}" if failed else event.get("wire_error", "")
    outputs = None if failed else {"choices": [{"index": 0, "message": message}]}
    return _Step(event["role"], SpanType.CHAT_MODEL, inputs, outputs, error, more)


def _called(event: Mapping[str, Any]) -> _Step:
    error = "" if event["status"] == "success" else str(event.get("error_type", event["status"]))
    more = {"loopbench.fault": event["fault"]} if "fault" in event else None
    return _Step(event["tool"], SpanType.TOOL, event["arguments"], event.get("data"), error, more)


_ROOT = 1


def _span(trace_id: str, number: int, step: _Step, when: tuple[int, int]) -> Span:
    """`number`: the span's place in its trace, which is its id. `when`: start and end, Unix time in ns."""
    attributes = {
        SpanAttributeKey.REQUEST_ID: trace_id,
        SpanAttributeKey.SPAN_TYPE: step.kind,
        SpanAttributeKey.INPUTS: step.inputs,
        SpanAttributeKey.OUTPUTS: step.outputs,
        **(step.more or {}),
    }
    return Span.from_dict(
        {
            "trace_id": base64.b64encode(bytes.fromhex(trace_id.removeprefix("tr-"))).decode(),
            "span_id": _span_id(number),
            "parent_span_id": None if number == _ROOT else _span_id(_ROOT),
            "name": _clean(step.name, MOST_NAME) or "(no name)",
            "start_time_unix_nano": when[0],
            "end_time_unix_nano": when[1],
            "status": {"code": f"STATUS_CODE_{'ERROR' if step.error else 'OK'}", "message": _clean(step.error, MOST_PREVIEW)},
            "attributes": {key: _json(value) for key, value in attributes.items()},
            "events": list(step.events),
        }
    )


def _span_id(number: int) -> str:
    return base64.b64encode(number.to_bytes(8, "big")).decode()


def _json(value: Any) -> str:
    return render_value(json.dumps(value, ensure_ascii=False))
