"""The files of a folder that came from anywhere, by their names below it: links are not followed, and sizes are bounded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol

from whichloop.protocol.files import read_bounded

MAX_NAMES = 200_000
"""Maximum number of files below a folder."""
MAX_LEVELS = 12
"""Levels of folders below a folder that are looked into."""
MAX_MEMBER_BYTES = 1 << 28
"""Maximum size of one file."""


class FileTree(Protocol):
    """Files by name, such as those of an archive or a folder."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names with `/` between folders."""

    def __contains__(self, name: object) -> bool: ...

    def read(self, name: str) -> bytes:
        """Return the bytes of one of them. Raises ValueError if they cannot be read within bounds."""


class FolderTree:
    """The regular files below a folder. Raises ValueError if there are too many, and OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digests_read: dict[str, str] = {}
        """Name → sha256 of each file that was read."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = []
        for name in self._walk(self.path, ""):
            names.append(name)
            if len(names) > MAX_NAMES:
                raise ValueError(f"more than {MAX_NAMES} files")
        return tuple(sorted(names))

    def _walk(self, folder: Path, prefix: str) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False) and name.count("/") < MAX_LEVELS:
                    yield from self._walk(folder / entry.name, f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    yield name

    def __contains__(self, name: object) -> bool:
        return name in self._name_set

    @cached_property
    def _name_set(self) -> frozenset[str]:
        return frozenset(self.names)

    def read(self, name: str) -> bytes:
        if name not in self:
            raise ValueError(f"{name}: not there")
        try:
            data = read_bounded(self.path / name, MAX_MEMBER_BYTES)
        except OSError as error:
            raise ValueError(f"{name}: {error.strerror}") from None
        self._digests_read[name] = hashlib.sha256(data).hexdigest()
        return data

    @property
    def sha256(self) -> str:
        """sha256 over the names and contents of the files that were read, whatever else is in the folder."""
        lines = (f"{digest} {name}\n" for name, digest in sorted(self._digests_read.items()))
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
