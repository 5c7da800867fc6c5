"""Run directories: their names, those that a user types, and the kinds of run that they hold."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from datetime import datetime
from pathlib import Path

from whichloop.protocol.names import meant, nearest, several

from .store.files import MANIFEST, RunError, read_manifest_json

RUNS = Path("runs")


def run_name(folder: Path) -> str:
    """Return a run's name in the folder of runs, however it was typed; `RUN/test` is the test of an optimization."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}" if is_test(whole) else whole.name


def new_folder(runs: Path, suite: str) -> Path:
    """Make a new run directory, whose name says when it was made and of which suite. Raises RunError and OSError."""
    check_no_file(runs)
    runs.mkdir(parents=True, exist_ok=True)
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", suite)[:60]
    folder = runs / f"{datetime.now():%Y%m%d-%H%M%S}-{label}-{secrets.token_hex(2)}"
    folder.mkdir()
    return folder


def check_no_file(runs: Path) -> None:
    """Raise RunError if the folder of runs is a file, or lies below one."""
    if file := next((part for part in (runs, *runs.parents) if part.is_file()), None):
        raise RunError(f"--runs: {file} is a file; name a folder")


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
    if is_optimization(folder) or is_test(folder):
        raise RunError(f"{folder}: an optimization and its test cannot be {what}; only comparisons can")


def trials_folder(folder: Path) -> Path:
    """Return the directory of a run's trials: its own, or that of an optimization's test. Raises RunError if no test was begun."""
    if not is_optimization(folder):
        return folder
    if not (folder / TEST / MANIFEST).is_file():
        shown = f"whichloop report {shlex.quote(str(folder))} -v shows its search"
        raise RunError(f"{folder}: no trial of the test split was run yet; {shown}")
    return folder / TEST


def run_folder(run: str | Path, runs: Path | None = None) -> Path:
    """Return a run's directory: `run` is that, its name under `runs`, or `latest`, the run that was begun, or imported, last.

    A part of a directory's name that no other run has will do, and so will the name that the run was given (`name`), and a path
    below a run: `latest/test` is the last optimization's test. Raises RunError if there is none, or several.
    """
    root, first, *below = runs or RUNS, *(Path(run).parts or ("",))
    try:
        if whole := next((folder for folder in (Path(run), root / run) if (folder / MANIFEST).is_file()), None):
            return whole
        given_names = _given_names(root)
        check_no_file(root)
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    found = [root / name for name, given in given_names.items() if given == str(run)]
    if not found and first:
        named = [*given_names][-1:] if first == "latest" else meant(first, list(given_names))
        found = [folder for name in named if (folder := (root / name).joinpath(*below)).is_dir()]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise RunError(f"{str(run)!r} matches {len(found)} runs in {root}: {several([folder.name for folder in found])}")
    if os.path.isfile(run):  # which takes a text of any length
        raise RunError(f"{run} is a file, not a run; whichloop import {shlex.quote(str(run))} reads results of other tools")
    names = [*reversed(given_names), *(["latest"] if given_names else []), *filter(None, given_names.values())]
    raise RunError(f"no run {str(run)!r} in {root}; {nearest(str(run), names)}")


def _given_names(root: Path) -> dict[str, str | None]:
    """Return directory → name that its user gave the run, for the runs in a folder, the one that was begun last at the end.

    Raises OSError.
    """
    runs = []
    for path in root.glob(f"*/{MANIFEST}"):
        if path.parent.name.startswith("."):
            continue  # not whole yet
        written = path.stat().st_mtime
        try:
            found = read_manifest_json(path.parent)
            began, config = datetime.fromisoformat(found["created"]).timestamp(), found["config"]
            config = config["compare"] if found.get("kind") == KIND else config
            name = config.get("name")
            runs.append((began, written, path.parent.name, name if isinstance(name, str) else None))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):  # which says so once the run is opened
            runs.append((written, written, path.parent.name, None))
    return {name: given for _, _, name, given in sorted(runs, key=lambda run: run[:3])}
