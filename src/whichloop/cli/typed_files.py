"""Files that a command writes because somebody typed their names."""

from __future__ import annotations

import errno
from pathlib import Path

from .console import say


def make_room(path: Path) -> None:
    """Make the folder of a file where there is none, and say so; below the current directory alone, since a slip of the keyboard
    would leave folders anywhere. Raises OSError, which names the file."""
    folder = path.parent
    if folder.is_dir():
        return
    if not folder.exists() and not folder.resolve().is_relative_to(Path.cwd()):
        raise NotADirectoryError(errno.ENOTDIR, f"there is no folder {folder}; none is made outside of this one", str(path))
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, f"its folder cannot be made: {error.strerror}", str(path)) from None
    say(f"made the folder {folder}")


def check_writable(flag: str, path: Path, undone: str) -> None:
    """Make room for a file, and find out whether it can be written, which leaves it as it is.

    `undone`: what was not done, as the end of the sentence. Raises ValueError, which names the flag.
    """
    try:
        make_room(path)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise ValueError(f"{flag} {path}: cannot be written ({error.strerror}); {undone}") from None
