"""The folder of what is kept for all runs of a user."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "WHICHLOOP_HOME"
"""The environment variable that names it."""


def home() -> Path:
    """Return the folder of environments of frameworks, of an empty MLflow store, and of digests of pages that were made."""
    folder = os.environ.get(HOME_VARIABLE)
    return Path(folder) if folder else Path.home() / ".local" / "share" / "whichloop"
