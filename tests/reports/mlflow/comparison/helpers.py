"""Runs to log, MLflow servers to log to, and what a store holds."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import socket
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import uvicorn
from mlflow import MlflowClient
from mlflow.server.constants import (
    ARTIFACT_ROOT_ENV_VAR,
    ARTIFACTS_DESTINATION_ENV_VAR,
    BACKEND_STORE_URI_ENV_VAR,
    SERVE_ARTIFACTS_ENV_VAR,
)

from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow.store import prepare_store
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

LOOPS = ("bare", "bare(max_steps=3, instructions='Say \"yes\", é.')")
PROFILES = ("clean", "flaky-tools")
TASKS = 7
"""Of the run that is logged: more than there are traces of an arm without a failure."""


def children(client: MlflowClient, tracked: tracking.Tracked) -> dict[str, Any]:
    found = client.search_runs([tracked.experiment_id], f"tags.`mlflow.parentRunId` = '{tracked.parent_run_id}'")
    assert len({child.data.tags["whichloop.arm"] for child in found}) == len(found)
    return {child.data.tags["whichloop.arm"]: child for child in found}


def traces(client: MlflowClient, tracked: tracking.Tracked, run_id: str) -> list[Any]:
    found: list[Any] = client.search_traces(locations=[tracked.experiment_id], run_id=run_id)
    return found


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str) -> None:
    give_up = time.monotonic() + 90
    while True:
        try:
            fetch(url)
            return
        except (URLError, OSError):
            assert time.monotonic() < give_up, f"{url} did not come up"
            time.sleep(0.2)


@contextlib.contextmanager
def served(uri: str, folder: Path) -> Iterator[str]:
    """MLflow's own server on loopback over a store, in a thread: a process of its own would import MLflow anew for seconds.

    One at a time: what it serves is in variables of MLflow's modules and of the environment.
    """
    if uri.startswith("sqlite:///"):
        prepare_store(Path(uri.removeprefix("sqlite:///")))
    environment = {
        BACKEND_STORE_URI_ENV_VAR: uri,
        ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
        ARTIFACTS_DESTINATION_ENV_VAR: str(folder / "artifacts"),
        SERVE_ARTIFACTS_ENV_VAR: "true",
    }
    with socket.socket() as listening, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the server's own, in its threads too
        for name, value in environment.items():
            patch.setenv(name, value)
        handlers = importlib.import_module("mlflow.server.handlers")
        for name in ("_tracking_store", "_model_registry_store", "_artifact_repo"):
            patch.setattr(handlers, name, None)
        listening.bind(("127.0.0.1", 0))
        app = importlib.import_module("mlflow.server.fastapi_app").app
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=20))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            wait_for(f"{address}/health")
            yield address
        finally:
            server.should_exit = True
            thread.join()


SOLVED_TASKS = 8


def of_size(folder: Path, repeats: int) -> Results:
    """A run in which every trial is solved."""
    config = CompareConfig(loops=("bare",), suite="arithmetic", tasks=SOLVED_TASKS, repeats=repeats, runs=folder, mlflow=False)
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    return results(experiment.folder)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        got: bytes = answer.read()
        return got


def models(client: MlflowClient, experiment_id: str) -> dict[str, Any]:
    """The models of an experiment, by id; each version once."""
    found = client.search_logged_models([experiment_id])
    assert len({model.tags["whichloop.version"] for model in found}) == len(found)
    return {model.model_id: model for model in found}
