"""Run directories, as they are typed."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from loopbench.protocol.counts import counted
from loopbench.protocol.names import meant, near, several
from loopbench.runs.store.files import MANIFEST, RunError, read_manifest_json

RUNS = Path("runs")


def run_name(folder: Path) -> str:
    """Return a run's name in the folder of runs, however it was typed; `RUN/test` is the test of an optimization."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}" if is_test(whole) else whole.name


def run_folder(run: str | Path, runs: Path | None = None) -> Path:
    """Return a run's directory: `run` is that, its name under `runs`, or `latest`, the run that was begun, or imported, last.

    A directory that is no run does not hide the run of its name.
    A part of a directory's name that no other run has will do, and so will the name that the run was given (`--name`), and a path
    below a run: `latest/test` is the last optimization's test.
    Raises RunError if there is none, or several.
    """
    root = runs or RUNS
    try:
        typed = [folder for folder in (Path(run), root / run) if folder.is_dir()]
        for folder in typed:
            if os.path.isfile(folder / MANIFEST):
                return folder
        # A folder whose name begins with a dot is not whole yet.
        found = [path.parent for path in root.glob(f"*/{MANIFEST}") if not path.parent.name.startswith(".")]
        runs_there = {folder.name: _run_there(folder) for folder in found}
        _check_no_file(root)
    except OSError as error:
        raise RunError(f"no run {str(run)!r}: {error.strerror}") from None
    named = [name for name in runs_there if runs_there[name].given_name == str(run)]
    if root / run in typed or (typed and len(named) != 1):
        return typed[-1]  # which says, once it is opened, that it is no run
    known = sorted(runs_there, key=lambda name: (runs_there[name].began, runs_there[name].written, name))
    first, *below = Path(run).parts or ("",)
    meaning = known[-1:] if first == "latest" else meant(first, known) if first else []
    if named and (typed or len(meaning) != 1):
        meaning, below = [name for name in known if name in named], []
        if len(meaning) > 1:
            raise RunError(f"{str(run)!r} is the name of {_dated(meaning, runs_there, root)}; take one of these")
    if len(meaning) > 1:
        raise RunError(f"{str(run)!r} matches {len(meaning)} runs in {root}: {several(meaning)}")
    if meaning:
        folder = (root / meaning[0]).joinpath(*below)
        if folder.is_dir():
            return folder
        raise RunError(f"no run {str(run)!r}: {root / meaning[0]} has no folder {'/'.join(below)!r}")
    names = [*known, *(["latest"] if known else []), *filter(None, (there.given_name for there in runs_there.values()))]
    asked = near(str(run), names)
    raise RunError(f"no run {str(run)!r}; {f'{asked} ' if asked else ''}in {root}: {_last(known) or 'none yet'}")


def _last(known: Sequence[str]) -> str:
    """Return the names of the runs that were begun last, and whether there are others."""
    return ("…, " if len(known) > MAX_NAMED else "") + ", ".join(known[-MAX_NAMED:])


def named_alike(folder: Path, name: str | None) -> str:
    """Return a sentence on the other runs beside this one that were given the same name; empty where there are none.

    `name`: the one that this run was given. Raises OSError.
    """
    if name is None:
        return ""
    others = {path.parent.name: _run_there(path.parent) for path in folder.parent.glob(f"*/{MANIFEST}") if path.parent != folder}
    alike = sorted((other for other, there in others.items() if there.given_name == name), key=lambda other: others[other].began)
    if not alike:
        return ""
    return f"{name!r} is also the name of {_dated(alike, others, folder.parent)}: name runs by their directories"


def _dated(names: Sequence[str], there: Mapping[str, _RunThere], root: Path) -> str:
    """Return `2 runs: runs/A (2026-03-01 09:30), runs/B (2026-03-02 10:00)`, the last ones where there are many."""
    begun = (f"{root / name} ({datetime.fromtimestamp(there[name].began):%Y-%m-%d %H:%M})" for name in names[-MAX_NAMED:])
    return f"{counted(len(names), 'run')}: {'…, ' if len(names) > MAX_NAMED else ''}{', '.join(begun)}"


MAX_NAMED = 5
"""Runs that a message names."""


class _RunThere(NamedTuple):
    """A run in the folder of runs, as far as looking it up takes."""

    began: float
    """When it was begun, to the second, in Unix time."""
    written: float
    """When its manifest was written last, in Unix time."""
    given_name: str | None
    """The name that its user gave it."""


def _run_there(folder: Path) -> _RunThere:
    """Read what looking a run up takes. Raises OSError."""
    written = (folder / MANIFEST).stat().st_mtime
    try:
        read = read_manifest_json(folder)
        began, config = datetime.fromisoformat(read["created"]).timestamp(), read.get("config")
    except (KeyError, TypeError, ValueError, OverflowError):  # a damaged manifest, which says so once the run is opened
        return _RunThere(written, written, None)
    if isinstance(config, dict) and read.get("kind") == KIND:
        config = config.get("compare")
    return _RunThere(began, written, config.get("name") if isinstance(config, dict) else None)


def new_folder(runs: Path, suite: str) -> Path:
    """Make a new run directory, whose name says when it was made and of which suite."""
    _check_no_file(runs)
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        folder = runs / new_name(suite)
        try:
            folder.mkdir()
        except FileExistsError:  # another process began in the same second, and drew the same
            continue
        return folder


def _check_no_file(runs: Path) -> None:
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
    report = f"loopbench report {shlex.quote(str(folder))} -v shows its search"
    if not programs:
        return report
    return f"{report}, and loopbench diff LOOP {shlex.quote(str(programs[0]))} what changed in its prompts"
