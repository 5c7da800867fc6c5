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


