"""Run directories: their names, those that a user types, and the kinds of run that they hold."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from whichloop.protocol.names import meant, near, several
from whichloop.protocol.values import counted

from .store.files import MANIFEST, RunError, read_manifest_json

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
    return f"{report}, and whichloop prompts LOOP {shlex.quote(str(programs[0]))} what changed in its prompts"


MAX_NAMED = 5
"""Maximum number of runs that a message names."""


class KnownRun(NamedTuple):
    """What the look-up of a run takes from its directory."""

    began: float
    """When the run was begun, to the second, in Unix time."""
    written: float
    """When its manifest was written last, in Unix time."""
    given_name: str | None
    """The name that its user gave it."""


def run_folder(run: str | Path, runs: Path | None = None) -> Path:
    """Return a run's directory: `run` is that, its name under `runs`, or `latest`, the run that was begun, or imported, last.

    A directory that is no run does not hide the run of its name.
    A part of a directory's name that no other run has will do, and so will the name that the run was given (`name`), and a path
    below a run: `latest/test` is the last optimization's test.
    Raises RunError if there is none, or several.
    """
    root = runs or RUNS
    try:
        typed = [folder for folder in (Path(run), root / run) if folder.is_dir()]
        run_typed = next((folder for folder in typed if os.path.isfile(folder / MANIFEST)), None)
        if run_typed is not None:
            return run_typed
        known_runs = _known_runs(root)
        check_no_file(root)
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    same_name = [directory for directory, entry in known_runs.items() if entry.given_name == str(run)]
    if root / run in typed or (typed and len(same_name) != 1):
        return typed[-1]  # which says, once it is opened, that it is no run
    first, *below = Path(run).parts or ("",)
    directories = _directories_meant(first, list(known_runs))
    if same_name:
        return root / _only_one(same_name, str(run), known_runs, root)
    if not directories and os.path.isfile(run):  # which takes a text of any length
        raise RunError(f"{run} is a file, not a run; whichloop import {shlex.quote(str(run))} reads results of other tools")
    if not directories:
        raise RunError(_no_such_run(str(run), known_runs, root, is_named=root != RUNS))
    if len(directories) > 1:
        raise RunError(f"{str(run)!r} matches {len(directories)} runs in {root}: {several(directories)}")
    return _folder_below(root / directories[0], below, run)


def _known_runs(root: Path) -> dict[str, KnownRun]:
    """Return directory name → run for the runs in a folder, the one that was begun last at the end. Raises OSError."""
    # A folder whose name begins with a dot is not whole yet.
    folders = [path.parent for path in root.glob(f"*/{MANIFEST}") if not path.parent.name.startswith(".")]
    entries = {folder.name: _known_run(folder) for folder in folders}
    return dict(sorted(entries.items(), key=lambda item: (item[1].began, item[1].written, item[0])))


def _known_run(folder: Path) -> KnownRun:
    """Read what the look-up takes from a run's directory. Raises OSError."""
    written = (folder / MANIFEST).stat().st_mtime
    try:
        as_json = read_manifest_json(folder)
        began, config = datetime.fromisoformat(as_json["created"]).timestamp(), as_json.get("config")
    except (KeyError, TypeError, ValueError, OverflowError):  # a damaged manifest, which says so once the run is opened
        return KnownRun(written, written, None)
    if isinstance(config, dict) and as_json.get("kind") == KIND:
        config = config.get("compare")
    return KnownRun(began, written, config.get("name") if isinstance(config, dict) else None)


def _directories_meant(text: str, directories: Sequence[str]) -> Sequence[str]:
    """Return the run directories, of those in the order of their beginnings, that a user means by a name or a part of one."""
    if text == "latest":
        return directories[-1:]
    return meant(text, directories) if text else []


def _only_one(directories: Sequence[str], name: str, known_runs: Mapping[str, KnownRun], root: Path) -> str:
    """Return the one directory whose run was given this name. Raises RunError if there are several."""
    if len(directories) > 1:
        raise RunError(f"{name!r} is the name of {_dated(directories, known_runs, root)}; take one of these")
    return directories[0]


def _folder_below(folder: Path, below: Sequence[str], run: str | Path) -> Path:
    """Return a folder inside of a run's directory, or the directory itself. Raises RunError if there is none."""
    inside = folder.joinpath(*below)
    if inside.is_dir():
        return inside
    raise RunError(f"no run {str(run)!r}: {folder} has no folder {'/'.join(below)!r}")


def _no_such_run(run: str, known_runs: Mapping[str, KnownRun], root: Path, *, is_named: bool) -> str:
    """Return the message for what means no run: names that are near, the runs that were begun last, and how to look elsewhere.

    `is_named`: whether the user named the folder of runs.
    """
    given_names = filter(None, (entry.given_name for entry in known_runs.values()))
    near_names = near(run, [*known_runs, *(["latest"] if known_runs else []), *given_names])
    last = ("…, " if len(known_runs) > MAX_NAMED else "") + ", ".join([*known_runs][-MAX_NAMED:])
    elsewhere = "" if is_named else "; --runs FOLDER looks in another folder"
    return f"no run {run!r}; {f'{near_names} ' if near_names else ''}in {root}: {last or 'none yet'}{elsewhere}"


def named_alike(folder: Path, name: str | None) -> str:
    """Return a sentence on the other runs beside this one that were given the same name; empty where there are none.

    `name`: the one that this run was given. Raises OSError.
    """
    if name is None:
        return ""
    others = {path.parent.name: _known_run(path.parent) for path in folder.parent.glob(f"*/{MANIFEST}") if path.parent != folder}
    alike = sorted((other for other, entry in others.items() if entry.given_name == name), key=lambda other: others[other].began)
    if not alike:
        return ""
    return f"{name!r} is also the name of {_dated(alike, others, folder.parent)}: name runs by their directories"


def _dated(names: Sequence[str], known_runs: Mapping[str, KnownRun], root: Path) -> str:
    """Return `2 runs: runs/A (2026-03-01 09:30), runs/B (2026-03-02 10:00)`, the last ones where there are many."""
    begun = (f"{root / name} ({datetime.fromtimestamp(known_runs[name].began):%Y-%m-%d %H:%M})" for name in names[-MAX_NAMED:])
    return f"{counted(len(names), 'run')}: {'…, ' if len(names) > MAX_NAMED else ''}{', '.join(begun)}"
