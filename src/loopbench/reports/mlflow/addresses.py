"""Addresses of MLflow stores, and how to look at them. Import this before MLflow, which reads its environment when imported."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

from loopbench.protocol.redact import MARK, USERINFO, anonymous_address, public_address

for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",  # MLflow ignores the customary 1
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is for results
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}.items():
    os.environ.setdefault(_name, _value)

SERVERS = ("http", "https")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
MAX_REASON = 300


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


def reason(error: Exception, uri: str) -> str:
    """Return why tracking failed, in one line without secrets."""
    text = " ".join(str(error).split())
    userinfo = USERINFO.search(uri)
    password = userinfo.group()[:-1].partition(":")[2] if userinfo else ""
    for spelling in filter(None, (password, unquote(password))):
        text = text.replace(spelling, MARK)
    text = public_address(text)[:MAX_REASON]
    return text if isinstance(error, ValueError | ConnectionError) and text else f"{type(error).__name__}: {text}"
