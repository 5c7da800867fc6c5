"""Addresses of the stores that runs are logged to, and how to look at them: known without MLflow, which takes seconds to import."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from whichloop.protocol.redact import anonymous_address, public_address

from .config import CompareConfig

SERVERS = ("http", "https")


def uri_of(config: CompareConfig, runs: Path) -> str:
    """Return the address of the store that a configuration names. `runs`: the folder that holds the run directories."""
    return config.tracking_uri or default_uri(runs)


def default_uri(runs: Path) -> str:
    """Return the address of a SQLite store in the folder that holds the run directories."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def ui_command(uri: str) -> str:
    """Return what opens MLflow's pages on a store: a command for a database, the address itself for a server.

    MLflow's job runner stays off: it takes 1.6 GB and imports LiteLLM, in which it hangs without a network.
    """
    if scheme_of(uri) in SERVERS:
        return anonymous_address(uri).rstrip("/")
    options = ["ui", "--backend-store-uri", public_address(uri), "--workers", "1", "--port", "5000"]
    return shlex.join(["env", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", *_mlflow(), *options])


def _mlflow() -> list[str]:
    """Return the mlflow command of this Python, by its bare name if that is the one on the PATH."""
    beside = Path(sys.executable).with_name("mlflow")
    if not beside.exists():
        return [sys.executable, "-m", "mlflow"]
    on_path = shutil.which("mlflow")
    return ["mlflow"] if on_path and Path(on_path).resolve() == beside.resolve() else [str(beside)]


def scheme_of(uri: str) -> str:
    """Return the scheme of an address, such as `sqlite` or `http`, without a driver's name."""
    return uri.partition(":")[0].partition("+")[0].lower()
