"""What is logged to MLflow because the settings ask for it: a finished run.

MLflow is an extra and takes seconds to import, so it is imported only where something is logged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whichloop._extras import how_to_install, is_installed
from whichloop.experiments.compare.results import Results
from whichloop.protocol.redact import redact
from whichloop.runs.config import CompareConfig
from whichloop.runs.store_addresses import ui_command, uri_of

if TYPE_CHECKING:
    from .mlflow import Tracked


def logs(config: CompareConfig) -> bool:
    """Say whether the settings ask for a log and MLflow is there to write one."""
    return config.is_logged and is_installed("mlflow")


def not_logged(config: CompareConfig) -> str:
    """Return a line for a run that would have been logged if MLflow were installed; empty for others."""
    if not config.is_logged or is_installed("mlflow"):
        return ""
    return f"not logged to MLflow, which is not installed: {how_to_install('mlflow')}"


def where_logged(config: CompareConfig, folder: Path) -> tuple[str, ...]:
    """Return lines that say where a run will be once it is logged; none if it will not be logged."""
    if not logs(config):
        return ()
    return ("MLflow: the run is there once this command has ended:", f"  {ui_command(uri_of(config, folder.parent))}")


def log_results(run: Results, config: CompareConfig, page: str) -> str:
    """Log a run, if that is wanted; return in one line why nothing was logged if that fails, else nothing. `page`: its report."""
    if not logs(config):
        return ""
    try:
        from . import mlflow
    except Exception as error:  # MLflow cannot be imported: that may not cost a result
        tracked: Tracked | str = redact(" ".join(f"{type(error).__name__}: {error}".split()))
    else:
        tracked = mlflow.track_as_configured(run, config, lambda _: page)
    return f"nothing was logged to MLflow: {tracked}" if isinstance(tracked, str) else ""
