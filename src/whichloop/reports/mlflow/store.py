"""An MLflow store: its runs, and what it takes as a key, a parameter, a number.

Every call names its store and run: MLflow's global address and active run are the user's.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request

from whichloop.protocol import render_value
from whichloop.protocol.digest import sha256
from whichloop.protocol.redact import public_address, redact
from whichloop.runs.store_addresses import SERVERS, scheme_of

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
KNOCK_S = 5.0
"""Seconds within which a server has to answer."""
MAX_PARAM, MAX_TAG, MAX_KEY, MAX_NAME = 6000, 4000, 250, 250
"""MLflow's own limits (mlflow/utils/validation.py)."""
RUN, ARM = "whichloop.run", "whichloop.arm"
"""The tags by which a run is found again: the name of its directory, and the arm or design that it is about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one MLflow run holds."""

    name: str
    arm: str = ""
    """The arm or design; empty for the run above them."""
    params: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | Path] = field(default_factory=dict)
    """Name of an artifact → its text, or the file itself."""


@dataclass(frozen=True, slots=True)
class Period:
    """When a run began and ended, in Unix seconds, and whether it is complete."""

    began: float
    ended: float
    complete: bool


class Store:
    """One experiment of one MLflow store."""

    def __init__(self, uri: str, experiment: str, runs: Path) -> None:
        """Open the store, and make the experiment if it is missing. `runs`: the folder that holds the run directories.

        Raises ValueError for an address that MLflow cannot log to, ConnectionError for a server that does not answer, and
        whatever MLflow, its database and the network raise.
        """
        scheme = scheme_of(uri)
        if scheme not in (*SERVERS, *DATABASES):
            schemes = ", ".join(f"{name}://" for name in (*SERVERS, *DATABASES))
            raise ValueError(f"tracking address {public_address(uri)!r}: it must begin with one of {schemes}")
        if scheme in SERVERS:
            _knock(uri)
        with _alone(uri):
            self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            known = self.client.get_experiment_by_name(experiment)
            place = None if scheme in SERVERS else (runs / "mlartifacts").as_uri()
            self.experiment_id = self.client.create_experiment(experiment, place) if known is None else known.experiment_id

    def put(self, name: str, entries: tuple[Entry, ...], period: Period) -> None:
        """Make the runs of a run directory, the first above the others, or bring them up to date. `name`: the directory's."""
        quote = '"' if "'" in name else "'"
        found = self.client.search_runs([self.experiment_id], f"tags.`{RUN}` = {quote}{name}{quote}")
        known = {run.data.tags.get(ARM, ""): run for run in found}
        ids: list[str] = []
        for entry in entries:
            above = {"mlflow.parentRunId": ids[0]} if ids else {}
            ids.append(self._put(known.get(clean(entry.arm, MAX_TAG)), entry, {RUN: name, **above, **_SOURCE}, period))
        for run_id in ids:
            self.client.set_terminated(run_id, "FINISHED" if period.complete else "KILLED", int(period.ended * 1000))

    def _put(self, run: Run | None, entry: Entry, tags: Mapping[str, str], period: Period) -> str:
        """Write what is new of a run, and return its id. A run of an arm is made anew where a parameter is another."""
        params = {metric_key(redact(key)): clean(value, MAX_PARAM) or '""' for key, value in entry.params.items()}
        if run is not None and entry.arm and any(run.data.params.get(key, value) != value for key, value in params.items()):
            self.client.delete_run(run.info.run_id)
            run = None
        if run is None:
            run = self.client.create_run(self.experiment_id, int(period.began * 1000), dict(tags))
        run_id = str(run.info.run_id)
        self.client.update_run(run_id, status="RUNNING", name=clean(entry.name, MAX_NAME))
        texts = {**tags, **entry.tags, **({ARM: entry.arm} if entry.arm else {})}
        now, held = int(time.time() * 1000), run.data.metrics
        numbers = {key: value for key, value in entry.metrics.items() if value is not None and math.isfinite(value)}
        metrics = {metric_key(redact(key)): value for key, value in numbers.items()}
        self.client.log_batch(
            run_id,
            [Metric(key, float(value), now, 0) for key, value in metrics.items() if held.get(key) != value],
            [Param(key, value) for key, value in params.items() if key not in run.data.params],
            [RunTag(key, clean(text, MAX_TAG)) for key, text in texts.items()],
        )
        for path, content in entry.files.items():
            if isinstance(content, Path):
                self.client.log_artifact(run_id, str(content))
            else:
                self.client.log_text(run_id, redact(render_value(content)), path)
        return run_id


_SOURCE = {"mlflow.source.name": "whichloop", "mlflow.source.type": "LOCAL"}


def _knock(uri: str) -> None:
    """Ask a server once, without MLflow's retries, so that an absent server costs seconds, not minutes."""
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", timeout=KNOCK_S, max_retries=0, raise_on_status=False)
    except MlflowException as error:
        raise ConnectionError(f"no server answers at {public_address(uri)}") from error


@contextlib.contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Keep other processes out while MLflow makes the tables of a new SQLite file: of two that make them at once one fails."""
    path = uri.partition(":///")[2].partition("?")[0]
    if scheme_of(uri) != "sqlite" or not path or path == ":memory:":
        yield
        return
    with Path(f"{path}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def metric_key(text: str) -> str:
    """Return a key that MLflow takes for a metric or parameter: the text itself, or what is left of it and a hash.

    MLflow takes word characters, `.-: /` and relative paths in their shortest form.
    """
    if re.fullmatch(r"[/\w.\- :]{1,250}", text) and not text.startswith("..") and not {"", ".", ".."} & set(text.split("/")):
        return text
    readable = re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[: MAX_KEY - 9]
    return f"{readable}-{sha256(text)[:8]}"


def clean(value: Any, limit: int) -> str:
    """Return any value as a text without secrets that every database takes."""
    text = redact(render_value(value)).replace("\x00", "\ufffd")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
