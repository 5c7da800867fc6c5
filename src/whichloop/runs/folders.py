"""Run directories: their names, and the kinds of run that they hold."""

from __future__ import annotations

import re
import secrets
import shlex
from datetime import datetime
from pathlib import Path

from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json

RUNS = Path("runs")


def run_name(folder: Path) -> str:
    """Return a run's name in the folder of runs, however it was typed; `RUN/test` is the test of an optimization."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}" if is_test(whole) else whole.name


def new_folder(runs: Path, suite: str) -> Path:
    """Make a new run directory, whose name says when it was made and of which suite."""
    check_no_file(runs)
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        folder = runs / new_name(suite)
        try:
            folder.mkdir()
        except FileExistsError:  # another process began in the same second, and drew the same
            continue
        return folder


def check_no_file(runs: Path) -> None:
    """Raise RunError if the folder of runs is a file, or lies below one."""
    file = next((part for part in (runs, *runs.parents) if part.is_file()), None)
    if file is not None:
        raise RunError(f"--runs: {file} is a file; name a folder")


def new_name(suite: str) -> str:
    """Return a name for a run directory, from the time and the suite."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", suite)[:60]
    return f"{stamp}-{label}-{secrets.token_hex(2)}"


KIND = "optimization"
"""The kind that an optimization's manifest has."""
TEST = "test"
"""The folder of the comparison on the test split."""
OPTIMIZED = "optimized.json"
"""The file of an optimization's design that holds its optimized program."""


def is_optimization(folder: Path) -> bool:
    """Say whether a run directory is that of an optimization. Raises RunError if it is not a run directory."""
    return read_manifest_json(folder).get("kind") == KIND


def is_test(folder: Path) -> bool:
    """Say whether a run directory is that of an optimization's test. Raises RunError for an unreadable manifest above it."""
    whole = folder.resolve()
    return whole.name == TEST and (whole.parent / MANIFEST).is_file() and is_optimization(whole.parent)


def refuse_optimization(folder: Path, what: str) -> None:
    """Raise RunError for an optimization, and for its test, which is opened once; `what`: such as "extended"."""
    if is_optimization(folder):
        raise RunError(f"{folder}: this is an optimization, which cannot be {what}; only comparisons can")
    if is_test(folder):
        raise RunError(f"{folder}: this is the test of an optimization, which is opened once: it cannot be {what}")


def trials_folder(folder: Path) -> Path:
    """Return the directory of a run's trials: its own, or that of an optimization's test. Raises RunError if no test was begun."""
    if not is_optimization(folder):
        return folder
    if not (folder / TEST / MANIFEST).is_file():
        raise RunError(f"{folder}: no trial of the test split was run yet; {_what_shows_a_search(folder)}")
    return folder / TEST


def _what_shows_a_search(folder: Path) -> str:
    """Return which commands show an optimization whose test was not begun."""
    programs = sorted(folder.glob(f"designs/*/{OPTIMIZED}"))
    report = f"whichloop report {shlex.quote(str(folder))} -v shows its search"
    if not programs:
        return report
    return f"{report}, and whichloop diff LOOP {shlex.quote(str(programs[0]))} what changed in its prompts"
