"""Baselines that cannot be read, and what to do about them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from whichloop.protocol.cured_error import CuredError
from whichloop.protocol.files import file_error_words
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


PUT_IT_BACK = "put it back, or start in the directory from which it has this name"
GIT_SECONDS = 10.0
"""How long git may take to say whether it knows a file."""


@contextmanager
def missing_files_told(settings: Mapping[str, Any], whose: str) -> Iterator[None]:
    """Have the error for a file that is not there say that these settings name it, and how to have it back.

    `whose`: who names it, such as `the configuration of the baseline b.json`. Raises CuredError in the place of that error; one
    about a file that no setting names stays as it is.
    """
    try:
        yield
    except FileNotFoundError as error:
        setting = _naming_setting(settings, error.filename)
        if setting is None:
            raise
        mistake = f"{file_error_words(error)}, and {whose} names it as {setting}"
        command = _git_command(error.filename)
        cure, commands = (PUT_IT_BACK, []) if command is None else ("take it back from git", [command])
        raise CuredError(mistake, cure, commands=commands) from None


def _naming_setting(settings: Mapping[str, Any], file: object) -> str | None:
    """Return the setting that names a file, be it within a text or a list of texts; None where none does."""
    if not isinstance(file, str) or not file:
        return None
    name = re.compile(rf"(?<![\w-]){re.escape(file)}(?![\w.-])")
    for setting, value in settings.items():
        texts = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(text, str) and name.search(text) for text in texts):
            return setting
    return None


def _git_command(file: str) -> tuple[str, ...] | None:
    """Return the command that takes a file back from git: as it is staged, or else as it was committed; None where git lacks it."""
    if _git_has("ls-files", "--error-unmatch", "--", file):
        return ("git", "checkout", "--", file)
    return ("git", "checkout", "HEAD", "--", file) if _git_has("cat-file", "-e", f"HEAD:./{file}") else None


def _git_has(*question: str) -> bool:
    """Whether git says yes; no where git is missing, slow, or not asked within a repository. It runs no hook."""
    with suppress(OSError, subprocess.TimeoutExpired):
        asked = ["git", "-c", "core.fsmonitor=false", *question]
        ended = subprocess.run(asked, capture_output=True, timeout=GIT_SECONDS, check=False)  # noqa: S603  # our own words, a name
        return ended.returncode == 0
    return False
