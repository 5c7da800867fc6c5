"""Pages that need not be made again: whichloop has made them for this user, from the same files and by the same code.

Only the user's own folder is asked. A run directory may come from anywhere, and what it says of its own page proves nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from whichloop.protocol.files import home, open_regular
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import write_whole

from .html.files import PAGE

PACKAGE = Path(__file__).parents[1]
MAX_KNOWN = 1_000
"""Pages that are remembered, before the oldest are forgotten."""
KEPT = 900
"""Pages that are not forgotten then: to look at the age of all of them takes longer than to make a short one."""


def source_of(folder: Path) -> str:
    """Return a digest of all that the page of a run is made from: its files, its name and the code that makes it. Raises OSError.

    To be called before the run is read: what is added to it meanwhile then changes the next digest.
    """
    sha256 = hashlib.sha256()
    for part in (run_name(folder), sys.version, *_code(PACKAGE)):
        sha256.update(f"{part}\n".encode())
    for path in sorted(folder.rglob("*")):
        if path != folder / PAGE and path.is_file():
            sha256.update(f"{path.relative_to(folder)}\n{_digest(path)}\n".encode())
    return sha256.hexdigest()


@cache
def _code(package: Path) -> tuple[str, ...]:
    """Return name, size and time of each file of the package as this process found them, which has imported them by then."""
    return tuple(_files(package))


def _files(folder: Path) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(Path(entry.path))
        else:
            stat = entry.stat()
            yield f"{entry.path} {stat.st_size} {stat.st_mtime_ns}"


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def is_known(source: str, folder: Path) -> bool:
    """Say whether the page in a run directory is the one that was made from this source, byte for byte."""
    try:
        return _entry(source).read_text(encoding="ascii") == _digest(folder / PAGE)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: nobody knows where the user's folder is
        return False


def remember(source: str, page: str) -> None:
    """Remember a page that was made. Where the user's folder cannot be written, it is made again."""
    with contextlib.suppress(OSError, RuntimeError):
        entry = _entry(source)
        entry.parent.mkdir(parents=True, exist_ok=True)
        write_whole(entry, hashlib.blake2b(page.encode("utf-8")).hexdigest().encode("ascii"))
        if len(os.listdir(entry.parent)) > MAX_KNOWN:
            pages = sorted(entry.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for oldest in pages[:-KEPT]:
                oldest.unlink(missing_ok=True)


def _entry(source: str) -> Path:
    return home() / "pages" / source
