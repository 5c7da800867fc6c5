"""Files that settings name and that are not there: who names them, and how to have them back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from whichloop.protocol.cured_error import CuredError
from whichloop.protocol.files import file_error_words

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
