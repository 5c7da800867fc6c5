"""Keys from a `.env` file."""

from __future__ import annotations

import os
from pathlib import Path

from whichloop import cli

NAME = ".env"


def load_env(folder: Path | None = None) -> None:
    """Set the variables of a folder's `.env` that the environment lacks; the default folder is the working directory.

    Raises ValueError, in one line that repeats none of the file's content, for a file that cannot be read.
    """
    path = (Path.cwd() if folder is None else folder) / NAME
    if not path.is_file():  # a virtual environment may bear the name
        return
    for name, value in cli.variables_in(path).items():
        os.environ.setdefault(name, value)
