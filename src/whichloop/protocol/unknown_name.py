"""A name that leads to nothing, and the setting that a file or a flag has it in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class UnknownNameError(ValueError):
    """No loop, suite or profile has this name."""

    def __init__(self, setting: str, reason: str) -> None:
        """`setting`: the field of a configuration whose value such a name is."""
        super().__init__(reason)
        self.setting = setting


@contextmanager
def naming_file(file: Path | None, flags: Mapping[str, Any]) -> Iterator[None]:
    """Let an unknown name be told with the file and the field that it stands in, unless a flag has that field's value.

    `file`: that of the configuration, if there is one. Raises ValueError for such a name.
    """
    try:
        yield
    except UnknownNameError as error:
        if file is None or flags.get(error.setting):
            raise
        raise ValueError(f"{file}: {error.setting}: {error}") from None
