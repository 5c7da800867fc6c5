"""What GitHub Actions shows of a gate: annotations on a step, and a page in its summary, from the command and from a test alike."""

from __future__ import annotations

import os
from pathlib import Path

from .outcome import GateResult
from .outputs import to_markdown


def in_actions() -> bool:
    """Whether this process is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def step_summary() -> Path | None:
    """Return the file that holds the step's summary; None outside a step."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None


def append_summary(path: Path, result: GateResult) -> None:
    """Append the gate's page to a summary. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(to_markdown(result))
