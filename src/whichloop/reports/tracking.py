"""What is logged to MLflow because the settings ask for it: a finished run.

MLflow is an extra and takes seconds to import, so it is imported only where something is logged.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from whichloop._extras import how_to_install, is_installed
from whichloop.experiments.compare.results import Results
from whichloop.runs.config import CompareConfig

if TYPE_CHECKING:
    from .mlflow import Tracked


def logs(config: CompareConfig) -> bool:
    """Say whether the settings ask for a log and MLflow is there to write one."""
    return config.mlflow and is_installed("mlflow")


def not_logged(config: CompareConfig) -> str:
    """Return a line for a run that would have been logged if MLflow were installed; empty for others."""
    if not config.mlflow or is_installed("mlflow"):
        return ""
    return f"not logged to MLflow, which is not installed: {how_to_install('mlflow')}; --no-mlflow leaves out this line"


def log_results(run: Results, config: CompareConfig, page: str) -> Tracked | str | None:
    """Log a run; return the reason in one line if that fails, and None if nothing is to be logged. `page`: its report."""
    return tracking().track_as_configured(run, config, lambda _: page) if logs(config) else None


def tracking() -> ModuleType:
    """Import the package that imports MLflow."""
    from . import mlflow

    return mlflow
