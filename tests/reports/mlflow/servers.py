"""MLflow's own server on loopback, in this process: one of its own would import MLflow anew for seconds."""

from __future__ import annotations

import contextlib
import importlib
import socket
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str) -> None:
    give_up = time.monotonic() + 90
    while True:
        try:
            urllib.request.urlopen(url, timeout=20).close()
            return
        except OSError:
            assert time.monotonic() < give_up, f"{url} did not come up"
            time.sleep(0.2)


@contextlib.contextmanager
def served(uri: str, folder: Path) -> Iterator[str]:
    """Serve a store. One at a time: what is served is in variables of MLflow's modules and of the environment."""
    environment = {
        "_MLFLOW_SERVER_FILE_STORE": uri,
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(folder / "artifacts"),
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    }
    with socket.socket() as listening, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the server's own, in its threads too
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("MLFLOW_TRACKING_URI", uri)  # as the server does, for good
        patch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
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
