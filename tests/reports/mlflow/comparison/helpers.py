"""Runs to log, MLflow servers to log to, and what a store holds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

from mlflow import MlflowClient
from mlflow.server.constants import (
    ARTIFACT_ROOT_ENV_VAR,
    ARTIFACTS_DESTINATION_ENV_VAR,
    BACKEND_STORE_URI_ENV_VAR,
    SERVE_ARTIFACTS_ENV_VAR,
)

from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import Results, results
from loopbench.reports import mlflow as tracking
from loopbench.reports.mlflow.prepared import prepare_store
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched

LOOPS = ("bare", "bare(max_steps=3, instructions='Say \"yes\", é.')")
PROFILES = ("clean", "flaky-tools")


def children(client: MlflowClient, tracked: tracking.Tracked) -> dict[str, Any]:
    found = client.search_runs([tracked.experiment_id], f"tags.`mlflow.parentRunId` = '{tracked.parent_run_id}'")
    assert len({child.data.tags["loopbench.arm"] for child in found}) == len(found)
    return {child.data.tags["loopbench.arm"]: child for child in found}


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
    """MLflow's own server on loopback over a store: the process that `mlflow server` starts, without the two that look after it."""
    if uri.startswith("sqlite:///"):
        prepare_store(Path(uri.removeprefix("sqlite:///")))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port), "mlflow.server.fastapi_app:app"]
    environment = os.environ | {
        BACKEND_STORE_URI_ENV_VAR: uri,
        ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
        ARTIFACTS_DESTINATION_ENV_VAR: str(folder / "artifacts"),
        SERVE_ARTIFACTS_ENV_VAR: "true",
    }
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
    assert compare.run(experiment, Unwatched()) == ""
    return results(experiment.folder)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        got: bytes = answer.read()
        return got


def models(client: MlflowClient, experiment_id: str) -> dict[str, Any]:
    """The models of an experiment, by id; each version once."""
    found = client.search_logged_models([experiment_id])
    assert len({model.tags["loopbench.version"] for model in found}) == len(found)
    return {model.model_id: model for model in found}
