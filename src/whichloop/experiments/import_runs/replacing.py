"""An imported run in the place of an older one of the same name: whole, or not at all."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from whichloop.runs.store.files import RunError, read_manifest_json


def check_replaceable(folder: Path, *, wanted: bool) -> None:
    """Raise ValueError unless the user wants to replace what is there, and it is an imported run.

    What whichloop ran itself cannot be made again from a file, and any other folder is none of ours.
    """
    if not wanted:
        raise ValueError(f"{folder}: exists already; take another --name, or replace the run that is there: --replace")
    if folder.is_symlink() or not folder.is_dir():
        raise ValueError(f"{folder}: not a run directory, so it is not replaced; take another --name")
    try:
        imported = read_manifest_json(folder).get("imported")
    except RunError as error:
        raise ValueError(f"{error}; it is not replaced; take another --name") from None
    if imported is None:
        raise ValueError(f"{folder}: not an imported run, so it is not replaced; take another --name")


def place_beside(folder: Path) -> Path:
    """Return a path in the same folder, whose name begins with a point: a run that is not whole yet."""
    return folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")


def take_place(run: Path, folder: Path) -> None:
    """Move a run to the place of another, and remove that; if the move fails, the other one stays. Raises OSError."""
    old = place_beside(folder)
    folder.rename(old)
    try:
        run.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
