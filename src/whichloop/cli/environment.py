"""Keys from a `.env` file."""

from __future__ import annotations

import os
from pathlib import Path

from dotenv.parser import parse_stream

NAME = ".env"


def load_env(folder: Path | None = None) -> None:
    """Set the variables of a folder's `.env` that the environment lacks; the default folder is the working directory.

    Raises ValueError, in one line that repeats none of the file's content, for a file that cannot be read.
    """
    path = (Path.cwd() if folder is None else folder) / NAME
    if not path.is_file():  # a virtual environment may bear the name
        return
    for name, value in variables_in(path).items():
        os.environ.setdefault(name, value)


def variables_in(path: Path) -> dict[str, str]:
    """Return the variables that a file sets. Nothing is interpolated.

    Raises ValueError, in one line that repeats none of the file's content, for a file that cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8 text"
        raise ValueError(f"{path}: cannot be read: {reason}") from None
    values: dict[str, str] = {}
    for binding in bindings:
        if binding.error or (binding.key and binding.value is not None and "\0" in binding.value):
            raise ValueError(f"{path}: line {binding.original.line}: write NAME=value, in quotes where it holds spaces or #")
        if binding.key and binding.value is not None:
            values[binding.key] = binding.value
    return values
