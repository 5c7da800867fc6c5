"""Run directories, as they are typed."""

from __future__ import annotations

from pathlib import Path

from .journal import MANIFEST, RunError
from .optimization.files import TEST, is_optimization

RUNS = Path("runs")


def run_name(folder: Path) -> str:
    """What a run is called in the folder of runs, however it was typed; `RUN/test` is the test of an optimization."""
    whole = folder.resolve()
    is_test = whole.name == TEST and (whole.parent / MANIFEST).is_file() and is_optimization(whole.parent)
    return f"{whole.parent.name}/{whole.name}" if is_test else whole.name


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
