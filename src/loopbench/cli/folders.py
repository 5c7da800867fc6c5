"""Run directories, as they are typed."""

from __future__ import annotations

from pathlib import Path


def run_folder(run: Path, runs: Path | None) -> Path:
    """A run's directory from what the user typed. Raises RunError where there is none."""
    from loopbench.runs import folders

    return folders.run_folder(run, runs)
