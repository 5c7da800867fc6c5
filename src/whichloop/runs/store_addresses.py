"""Addresses of the stores that runs are logged to, and how to look at them: known without MLflow, which takes seconds to import."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from whichloop.protocol.redact import anonymous_address, public_address

from .config import CompareConfig

SERVERS = ("http", "https")


def uri_of(config: CompareConfig, runs: Path) -> str:
    """Return the address of the store that a configuration names. `runs`: the folder that holds the run directories."""
    return config.tracking_uri or default_uri(runs)


def default_uri(runs: Path) -> str:
    """Return the address in MLFLOW_TRACKING_URI, else of a SQLite store in the folder that holds the run directories."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def ui_command(uri: str) -> str:
    """Return what opens MLflow's page on a store: a command for a database, the address itself for a server."""
    if scheme_of(uri) in SERVERS:
        return anonymous_address(uri).rstrip("/")
    return shlex.join(["whichloop", "ui", "--tracking-uri", public_address(uri)])


def scheme_of(uri: str) -> str:
    """Return the scheme of an address, such as `sqlite` or `http`, without a driver's name."""
    return uri.partition(":")[0].partition("+")[0].lower()
