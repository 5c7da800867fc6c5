"""A trial, an arm or a loop that was typed where a run belongs: which command was meant."""

from __future__ import annotations

import shlex
from pathlib import Path

from whichloop.runs.folders import trials_folder
from whichloop.runs.store.files import RunError, arms_in, read_manifest_json
from whichloop.runs.typed_runs import run_folder

from .options import ReadRunChoice


def folder_of(choice: ReadRunChoice, command: str, *behind: str | None) -> Path:
    """Return the directory of a run's trials. `behind`: what was typed behind the run, None where nothing was.

    Raises RunError if there is none; where the latest run has what was typed in its place, it says with which command that is read.
    """
    try:
        return trials_folder(choice.folder)
    except RunError as error:
        typed = str(choice.run)
        if not _latest_has(typed, choice.runs):
            raise
        runs = [] if choice.runs is None else ["--runs", str(choice.runs)]
        words = ["whichloop", command, "latest", typed, *(word for word in behind if word is not None), *runs]
        no_run = str(error).partition(";")[0]
        raise RunError(f"{no_run}; put the run before it: {shlex.join(words)}") from None


def _latest_has(typed: str, runs: Path | None) -> bool:
    """Return whether the latest run has an arm or a loop of that name, or may have such a trial ARM/TASK/REPEAT."""
    try:
        manifest = read_manifest_json(trials_folder(run_folder("latest", runs)))
    except RunError:
        return False
    parts = typed.split("/")
    return any(arms_in(manifest, "/".join(parts[:end])) for end in range(1, len(parts) + 1))
