"""Baselines that cannot be read, and what to do about them."""

from __future__ import annotations

import shlex
from pathlib import Path

from whichloop.protocol.cured_error import CuredError
from whichloop.protocol.values import one_line

ANEW = "bless it again"
CONFLICT = b"<<<<<<<"
"""What a line begins with from which on git could not merge two versions of a file."""
POINTER = b"version https://git-lfs.github.com/spec/"
"""What a file begins with that Git LFS keeps elsewhere and has not fetched (git-lfs, docs/spec.md)."""
SUFFIX = ".json"


class DamagedBaseline(CuredError):
    """A file that is, or once was, a baseline cannot be read as one.

    The text says which file, why, and what to do, the last thing being to bless it again.
    """

    def __init__(self, path: Path, reason: str, cure: str = ANEW) -> None:
        self.path = path
        self.reason = one_line(reason)
        super().__init__(one_line(f"{path}: {reason}"), cure)


def has_conflict(text: bytes) -> bool:
    """Say whether git left two versions in a file that it could not merge."""
    return text.startswith(CONFLICT) or b"\n" + CONFLICT in text


def cure_of(path: Path, text: bytes) -> str:
    """Return what to do about a damaged file with this text: within a repository, intact versions of it are there still."""
    file = shlex.quote(str(path))
    if text.startswith(POINTER):
        return f"git lfs pull fetches it; else {ANEW}"
    if has_conflict(text):
        return f"take one side with git checkout --ours -- {file}, or --theirs, while the merge is under way, or {ANEW}"
    if not any((folder / ".git").exists() for folder in path.absolute().parents):
        return ANEW
    return f"take an intact version back with git checkout COMMIT -- {file} (git log -- {file} lists them), or {ANEW}"


def check_suffix(setting: str, path: Path) -> None:
    """Raise ValueError, which names the setting, for a baseline whose name is not one of a JSON file."""
    if path.suffix.lower() != SUFFIX:
        raise ValueError(f"{setting}: a baseline is a file NAME{SUFFIX}, such as gates/mine{SUFFIX}, got {str(path)!r}")
