"""What is logged to MLflow because the settings ask for it: a finished run, or a search with its test.

MLflow is an extra and takes seconds to import, so it is imported only where something is logged.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from whichloop._extras import how_to_install, is_installed
from whichloop.experiments.compare.results import Results
from whichloop.protocol.redact import MARK, USERINFO, anonymous_address, public_address
from whichloop.runs.config import SERVERS, CompareConfig, scheme_of

if TYPE_CHECKING:
    from whichloop.experiments.optimize.result import OptimizationResult

MAX_REASON = 300


def default_uri(runs: Path) -> str:
    """Return the address in MLFLOW_TRACKING_URI, else of a SQLite store in the folder that holds the run directories."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def ui_command(uri: str) -> str:
    """Return what opens MLflow's page on a store: a command for a database, the address itself for a server."""
    if scheme_of(uri) in SERVERS:
        return anonymous_address(uri).rstrip("/")
    return shlex.join(["whichloop", "ui", "--tracking-uri", public_address(uri)])


def where_logged(config: CompareConfig, folder: Path) -> tuple[str, ...]:
    """Return lines that say where a run will be once it is logged; none if it will not be logged."""
    if not config.is_logged or not is_installed("mlflow"):
        return ()
    return (
        "MLflow: the run is there once this command has ended:",
        f"  {ui_command(config.tracking_uri or default_uri(folder.parent))}",
    )


def log_results(found: Results | OptimizationResult, config: CompareConfig, page: str) -> str:
    """Log a run, if that is wanted; return in one line why nothing was logged if that fails, else nothing. `page`: its report."""
    if not config.is_logged:
        return ""
    if not is_installed("mlflow"):
        return f"nothing was logged to MLflow, which is not installed: {how_to_install('mlflow')}"
    uri = config.tracking_uri or default_uri(found.folder.parent)
    try:
        from . import mlflow  # noqa: PLC0415  # an extra

        mlflow.log(found, uri, config.experiment, page)
    except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
        return f"nothing was logged to MLflow: {_reason(error, uri)}"
    return ""


def _reason(error: Exception, uri: str) -> str:
    """Return why logging failed, in one line without secrets."""
    text = " ".join(str(error).split())
    userinfo = USERINFO.search(uri)
    password = userinfo.group()[:-1].partition(":")[2] if userinfo else ""
    for spelling in filter(None, (password, unquote(password))):
        text = text.replace(spelling, MARK)
    text = public_address(text)[:MAX_REASON]
    return text if isinstance(error, ValueError | ConnectionError) and text else f"{type(error).__name__}: {text}"
