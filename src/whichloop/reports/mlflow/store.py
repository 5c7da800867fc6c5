"""An MLflow store: its address, its runs, and what it takes as a key, a parameter, a number.

Every call names its store and run: MLflow's global address and active run are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import sqlalchemy.event
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, LoggedModelInput, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine
from mlflow.tracing.client import TracingClient
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request

from whichloop.metrics.statistics import Interval
from whichloop.protocol import render_value
from whichloop.protocol.digest import sha256
from whichloop.protocol.files import home
from whichloop.protocol.redact import public_address
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store_addresses import SERVERS, scheme_of, ui_command

from .addresses import DATABASES


def prepare_store(path: Path) -> None:
    """Put an empty store at `path`, unless there is a file. Where none can be kept ready, leave the tables to MLflow.

    The caller keeps other processes of whichloop away from `path`.
    """
    if path.exists():
        return
    try:
        _copy(_ready(), path)
    except (OSError, sqlite3.Error):  # the home folder cannot be written, say: MLflow makes its tables where they are needed
        return


def _ready() -> Path:
    """Return the empty store of this version of MLflow, made if it is missing or damaged."""
    database = home() / "mlflow" / f"empty-{mlflow.__version__}.db"
    if not (database.is_file() and _is_intact(database)):
        database.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=database.parent) as folder:
            new_database = Path(folder) / database.name
            _make(new_database)
            new_database.replace(database)
    return database


def _is_intact(store: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def _make(store: Path) -> None:
    engine = create_sqlalchemy_engine(f"sqlite:///{store}")
    sqlalchemy.event.listen(engine, "connect", _never_wait)
    try:
        _initialize_tables(engine)
    finally:
        engine.dispose()
    with store.open("rb") as file:
        os.fsync(file.fileno())  # once, where SQLite would for each migration


def _never_wait(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")


def _copy(store: Path, path: Path) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        shutil.copyfile(store, beside)
        os.link(beside, path)  # which fails where another program has made the file meanwhile
    finally:
        beside.unlink(missing_ok=True)


KNOCK_S = 5.0
"""Seconds within which a server has to answer."""

# MLflow's own limits (mlflow/utils/validation.py).
MAX_PARAM, MAX_TAG, MAX_KEY, MAX_NAME, MAX_DATASET_DIGEST = 6000, 4000, 250, 250, 36
MAX_PREVIEW = 1000


@dataclass(frozen=True, slots=True)
class Tracked:
    """The place of a run in MLflow."""

    uri: str
    """Address of the store or server, without password."""
    experiment_id: str
    parent_run_id: str
    ui: str
    """How to look at it: a command or an address."""


def run_name(folder: Path) -> str:
    """Return a run directory's name in MLflow; the name of one inside another, such as an optimization's test, has both."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}" if (whole.parent / MANIFEST).is_file() else whole.name


# --- the store ---


@dataclass(frozen=True, slots=True)
class About:
    """The model and the dataset that some of a run's metrics describe."""

    model_id: str
    dataset: DatasetInput
    metrics: frozenset[str]
    """Keys of these metrics."""

    def of(self, key: str) -> dict[str, str]:
        """Return what a metric is logged with."""
        if key not in self.metrics:
            return {}
        dataset = self.dataset.dataset
        return {"model_id": self.model_id, "dataset_name": dataset.name, "dataset_digest": dataset.digest}


@dataclass(frozen=True, slots=True)
class RunEntry:
    """The content of one MLflow run."""

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: dict[str, float]
    started_ms: int
    """Unix time of the start, in ms."""
    step: int = 0
    """Step of the metrics."""
    about: About | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """One experiment of one MLflow store."""

    uri: str
    client: MlflowClient
    traces: TracingClient
    experiment_id: str

    def parent(self, name: str, kind: str = "run") -> Run | None:
        """Return the MLflow run of a run directory, or None if it was not logged before."""
        quote = '"' if "'" in name else "'"
        named = f"tags.`whichloop.run` = {quote}{name}{quote}"
        runs = self.client.search_runs([self.experiment_id], f"{named} and tags.`whichloop.kind` = '{kind}'", max_results=1)
        return runs[0] if runs else None

    def children(self, parent_id: str, tag: str) -> dict[str, Run]:
        """Return the runs below a run that were logged before, by their `tag`; runs without it are left out."""
        runs: dict[str, Run] = {}
        token = None
        while token != "":
            page = self.client.search_runs([self.experiment_id], f"tags.`mlflow.parentRunId` = '{parent_id}'", page_token=token)
            runs |= {run.data.tags[tag]: run for run in page if tag in run.data.tags}
            token = page.token or ""
        return runs

    def put(self, run: Run | None, entry: RunEntry) -> str:
        """Make the run or write only what changed, and return its id: parameters cannot change, metrics keep a history."""
        if run is None:
            run = self.client.create_run(self.experiment_id, entry.started_ms, dict(entry.tags), entry.name)
        elif run.info.run_name != entry.name:  # what stands first in it may change as a run goes on
            self.client.update_run(run.info.run_id, name=entry.name)
        logged, about, run_id = run.data, entry.about, str(run.info.run_id)
        tags, linked = dict(entry.tags), frozenset[str]()
        if about is not None and logged.tags.get(_MODEL) != about.model_id:
            self.client.log_inputs(run_id, [about.dataset], [LoggedModelInput(about.model_id)])
            tags[_MODEL], linked = about.model_id, about.metrics
        gone = {key: 0.0 for key in logged.metrics if key.startswith(_COUNTS) and key not in entry.metrics}
        now = int(time.time() * 1000)
        steps = {metric.key: metric.step for metric in logged._metric_objs}  # MLflow shows the value of the last step
        self.client.log_batch(
            run_id,
            metrics=[
                Metric(key, value, now, max(entry.step, steps.get(key, 0)), **(about.of(key) if about else {}))
                for key, value in (gone | entry.metrics).items()
                if logged.metrics.get(key) != value or key in linked
            ],
            params=[Param(key, value) for key, value in entry.params.items() if key not in logged.params],
            tags=[RunTag(key, value) for key, value in tags.items() if logged.tags.get(key) != value],
        )
        return run_id

    def tracked(self, run_id: str) -> Tracked:
        """Return how to look at a run."""
        place = f"/#/experiments/{self.experiment_id}/runs/{run_id}" if scheme_of(self.uri) in SERVERS else ""
        return Tracked(public_address(self.uri), self.experiment_id, run_id, ui_command(self.uri) + place)


_COUNTS = ("trials.errors.", "trials.retries.", "trials.stops.")

_MODEL = "whichloop.model_id"
"""Tag of a run that is linked to its model: the result of a search does not say so."""


def open_store(uri: str, experiment: str, runs: Path) -> Store:
    """Return the store of an experiment, made if missing. `runs`: the folder that holds the run directories.

    Raises ValueError for an address that MLflow cannot log to, ConnectionError for a server that does not answer, and whatever
    MLflow, its database and the network raise.
    """
    scheme = scheme_of(uri)
    if scheme not in (*SERVERS, *DATABASES):
        schemes = ", ".join(f"{name}://" for name in (*SERVERS, *DATABASES))
        raise ValueError(f"tracking address {public_address(uri)!r}: it must begin with one of {schemes}")
    # As a whole, not around each call: catch_warnings is the process's, and a thread of ours may be writing.
    warnings.filterwarnings("ignore", "The ``noload`` loader strategy is deprecated", DeprecationWarning)
    if scheme in SERVERS:
        _knock(uri)
    with _alone(uri):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        known_one = client.get_experiment_by_name(experiment)
        artifacts = None if scheme in SERVERS else (runs / "mlartifacts").as_uri()
        experiment_id = client.create_experiment(experiment, artifacts) if known_one is None else known_one.experiment_id
    return Store(uri, client, TracingClient(uri), experiment_id)


def get_ready(uri: str) -> None:
    """Do what takes long when a store of this kind is first opened, for any store: imports, the mapping of tables.

    A store that is thrown away is opened; where none can be made, the first one to be opened takes longer.
    """
    if scheme_of(uri) not in DATABASES:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        prepare_store(path)
        if path.exists():
            MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments(max_results=1)


def _knock(uri: str) -> None:
    """Ask a server once, without MLflow's retries, so that an absent server costs seconds, not minutes."""
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", timeout=KNOCK_S, max_retries=0, raise_on_status=False)
    except MlflowException as error:
        raise ConnectionError(f"no server answers at {public_address(uri)}") from error


@contextlib.contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Keep other processes out, and have the tables of a new SQLite file ready: two that make them at once would fail."""
    path, _, options = uri.partition(":///")[2].partition("?")
    if scheme_of(uri) != "sqlite" or not path or path == ":memory:":
        yield
        return
    with Path(f"{path}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not options:  # which may ask for a file that is only read, or for none
            prepare_store(Path(path))
        yield


# --- what MLflow takes ---


def metric_key(text: str) -> str:
    """Return a key that MLflow takes for a metric or parameter: the text itself, or what is left of it and a hash.

    MLflow takes word characters, `.-: /` and relative paths in their shortest form.
    """
    if re.fullmatch(r"[/\w.\- :]{1,250}", text) and not text.startswith("..") and not {"", ".", ".."} & set(text.split("/")):
        return text
    readable = re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[: MAX_KEY - 9]
    return f"{readable}-{sha256(text)[:8]}"


def params(values: Mapping[str, Any]) -> dict[str, str]:
    """Return any values as parameters."""
    return {metric_key(name): clean(value, MAX_PARAM) or '""' for name, value in values.items()}


def numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that are numbers, as metrics."""
    return {metric_key(name): float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def interval_metrics(name: str, interval: Interval | None) -> dict[str, float | None]:
    """Return a mean and the ends of its interval as metrics."""
    return {} if interval is None else {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def clean(value: object, limit: int) -> str:
    """Return any value as a text that every database takes."""
    text = render_value(value).replace("\x00", "\ufffd")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
