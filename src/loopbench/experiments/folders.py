"""Run directories, as they are typed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from loopbench.runs.store.files import MANIFEST, RunError, read_manifest

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
        found = [path.parent for path in root.glob(f"*/{MANIFEST}") if not path.parent.name.startswith(".")]  # a dot: not whole yet
        began = {folder.name: _began(folder) for folder in found}
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    known = sorted(began, key=lambda name: (began[name], name))
    if str(run) == "latest" and known:
        return root / known[-1]
    raise RunError(f"no run {str(run)!r}; in {root}: {', '.join(known[-5:]) or 'none yet'}")


def _began(folder: Path) -> tuple[float, float]:
    """When a run was begun, to the second, then when its manifest was written last, in Unix time. Raises OSError."""
    written = (folder / MANIFEST).stat().st_mtime
    try:
        return datetime.fromisoformat(read_manifest(folder)["created"]).timestamp(), written
    except (KeyError, TypeError, ValueError, OverflowError):  # a damaged manifest, which says so once the run is opened
        return written, written
