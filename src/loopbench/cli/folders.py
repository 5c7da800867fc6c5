"""Run directories, as they are typed."""

from __future__ import annotations

from pathlib import Path


def run_folder(run: Path, runs: Path | None) -> Path:
    """A run's directory from what the user typed. Raises ValueError where there is none."""
    root = runs or Path("runs")
    if run.is_dir():
        return run
    if (root / run).is_dir():
        return root / run
    known = sorted(path.parent.name for path in root.glob("*/manifest.json"))
    if str(run) == "latest" and known:
        return root / known[-1]
    raise ValueError(f"no run {str(run)!r}; in {root}: {', '.join(known[-5:]) or 'none yet'}")
