"""Run directories, as they are typed."""

from __future__ import annotations

from pathlib import Path

from .journal import MANIFEST, RunError

RUNS = Path("runs")


def run_folder(run: str | Path, runs: Path | None = None) -> Path:
    """A run's directory: `run` is that, its name under `runs`, or `latest`, the one that was begun, or imported, last.

    Raises RunError where there is none.
    """
    root = runs or RUNS
    try:
        for folder in (Path(run), root / run):
            if folder.is_dir():
                return folder
        began = {path.parent.name: path.stat().st_mtime_ns for path in root.glob(f"*/{MANIFEST}")}
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    known = sorted(began, key=lambda name: (began[name], name))  # a run that was given a name says nothing of its time
    if str(run) == "latest" and known:
        return root / known[-1]
    raise RunError(f"no run {str(run)!r}; in {root}: {', '.join(known[-5:]) or 'none yet'}")
