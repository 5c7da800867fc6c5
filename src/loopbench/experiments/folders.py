"""Run directories, as they are typed."""

from __future__ import annotations

from pathlib import Path

from .journal import MANIFEST, RunError

RUNS = Path("runs")


def run_folder(run: str | Path, runs: Path | None = None) -> Path:
    """A run's directory: `run` is that, its name under `runs`, or `latest`. Raises RunError where there is none."""
    root = runs or RUNS
    try:
        for folder in (Path(run), root / run):
            if folder.is_dir():
                return folder
        known = sorted(path.parent.name for path in root.glob(f"*/{MANIFEST}"))
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    if str(run) == "latest" and known:
        return root / known[-1]
    raise RunError(f"no run {str(run)!r}; in {root}: {', '.join(known[-5:]) or 'none yet'}")
