"""`whichloop ui`: MLflow's page on the store that runs are logged to."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .flags import RUNS, Runs


def ui(
    runs: Runs = RUNS,
    tracking_uri: Annotated[
        str | None, typer.Option(metavar="URI", envvar="MLFLOW_TRACKING_URI", help="Another store than that of --runs.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, metavar="PORT", help="Port on this machine.")] = 5000,
) -> None:
    """Open MLflow's page on the runs that were logged, until Ctrl-C."""
    import signal
    import socket
    import subprocess
    import sys
    from pathlib import Path

    from whichloop._extras import is_installed, missing
    from whichloop.reports.tracking import default_uri, ui_command
    from whichloop.runs.config import DATABASES, SERVERS, scheme_of

    uri = tracking_uri or default_uri(runs)
    if scheme_of(uri) in SERVERS:
        print(ui_command(uri))
        return
    if scheme_of(uri) not in DATABASES:
        raise ValueError(f"{uri}: write the address of a database or of a server, such as sqlite:///runs/mlflow.db")
    if not is_installed("mlflow"):
        raise missing("ui", "mlflow")
    if scheme_of(uri) == "sqlite" and not Path(uri.partition(":///")[2]).is_file():
        raise ValueError(f"{uri}: there is no such store; whichloop compare --mlflow logs a run")
    from whichloop.reports.mlflow import page_of

    page = page_of(uri)
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
    # MLflow's job runner takes 1.6 GB and imports LiteLLM, in which it hangs without a network
    environment = os.environ | {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    child = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603  # a port is all that was typed
    print(f"http://127.0.0.1:{port}{page}", flush=True)
    try:
        raise typer.Exit(1 if child.wait() else 0)
    except KeyboardInterrupt:
        return
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
