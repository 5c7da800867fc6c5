"""How a command tells that it cannot go on: in one line, without secrets and control characters.

Loaded when it has to.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection
from typing import Any

from whichloop.protocol.files import file_error_words
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line
from whichloop.runs.config import EVERYDAY, SettingError
from whichloop.text.output import terminal_safe


def error_line(error: ValueError | OSError, flags: Collection[str] = ()) -> str:
    """Return the line for a user's mistake. `flags`: options of the command; a setting that is none of them is typed by `-s`."""
    if isinstance(error, SettingError):
        name = error.setting.partition(".")[0]
        flag = EVERYDAY.get(name) or f"--{error.setting.replace('_', '-')}"
        shown = next((each for each in (flag, f"--add-{flag[2:]}") if each in flags), f"-s {error.setting}")
        return _line(f"error: {shown}: {error.problem}")
    return _line(f"error: {error_words(error)}")


def usage_error_line(error: Any) -> str:
    """Return the line for what the parser of the command line raises."""
    path = "whichloop" if error.ctx is None else error.ctx.command_path
    return _line(f"error: {error.format_message().replace('Value error, ', '').rstrip('.')}; see {path} --help")


def exit_line(raised: SystemExit) -> str:
    """Return the line for code of the user's own that has left Python."""
    reason = raised.code if isinstance(raised.code, str) else f"code of a loop, a tool or a suite called sys.exit({raised.code!r})"
    return _line(f"error: {reason}")


def crash_text(error: Exception) -> str:
    """Return what Python prints of a mistake of ours, which may quote a request."""
    return redact("".join(traceback.format_exception(error)))


def _line(text: str) -> str:
    return terminal_safe(one_line(redact(text)))


def error_words(error: ValueError | OSError) -> str:
    """Return the error in words; an error about a file names the file first and no error number."""
    return file_error_words(error) if isinstance(error, OSError) else str(error)
