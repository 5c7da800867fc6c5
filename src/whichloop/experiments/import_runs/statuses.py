"""What a table's words say of how a trial ended: in a column of the status, or in that of the score (`PASS`, `FAIL`, `ERROR`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from whichloop.metrics.left_out import BLANK_SCORE

from .foreign_trials import Status
from .values import is_nothing, reason_line, score, short_value

_STATUSES: Mapping[str, Status] = {
    "scored": "scored",
    **dict.fromkeys(("ok", "success", "succeeded", "pass", "passed", "complete", "completed", "done"), "scored"),
    **dict.fromkeys(("errored", "error", "crashed"), "errored"),
    **dict.fromkeys(("excluded", "skipped"), "excluded"),
}
_FAILED = ("fail", "failed", "failure")
"""Statuses of trials that ended without success: by an error if they have no score, at the task if they have one."""
_NO_ERROR = frozenset(
    [*("false", "f", "0", "0.0", "no", "n", "no error", "[]", "{}"), *(word for word in _STATUSES if _STATUSES[word] == "scored")]
)
_SOME_ERROR = frozenset({"true", "t", "1", "1.0", "yes", "y"})
"""What a column of errors has where it only says whether there was one."""
ERROR_WITHOUT_TEXT = "an error without a text"
_WITHOUT_SCORE = {word: status for word, status in _STATUSES.items() if status != "scored"}


def status_in_score(value: Any) -> Status | None:
    """Return the status that a cell of the score says in the place of a score: `ERROR`, `skipped`; None for any other cell."""
    return _WITHOUT_SCORE.get(value.strip().lower()) if isinstance(value, str) else None


def error_in(cell: Any) -> str:
    """Return the text of the error that a cell names, also where it says only that there was one; empty where there was none."""
    word = str(cell).strip().lower()
    if is_nothing(cell) or word in _NO_ERROR:
        return ""
    return ERROR_WITHOUT_TEXT if word in _SOME_ERROR else reason_line(cell)


def is_verdict(value: Any) -> bool:
    """Tell whether a cell is a word that says how a trial was judged or ended: `PASS`, `no`, `✓`, `ERROR`."""
    if not isinstance(value, str) or any(map(str.isdecimal, value)):
        return False
    try:
        return status_in_score(value) is not None or score(value, None) is not None
    except ValueError:
        return False


def status_of(text: Any, value: float | None, from_score: Status | None = None, column: str = "status") -> Status:
    """Return a trial's status: the one that its score's cell says, or else its status's; with neither, a blank score is errored.

    `column`: the name of the status's. Raises ValueError for an unknown word, and where status and score contradict each other.
    """
    if is_nothing(text):
        return from_score or ("errored" if value is None else "scored")
    word = str(text).strip().lower()
    status = _STATUSES.get(word) if word not in _FAILED else "errored" if value is None else "scored"
    if status is None:
        problem = f"status {short_value(text)} is none of {', '.join((*_STATUSES, *_FAILED))}"
        as_errors = f"if it is an error that ended the trial: --map {shlex.quote(f'error={column},status=')}"
        raise ValueError(f"{problem}; {as_errors}; to leave the column out: --map status=")
    if status == "scored" and value is None:
        raise ValueError(f"status {short_value(text)}, and {f'the score says {from_score}' if from_score else BLANK_SCORE}")
    return status if status == "excluded" else from_score or status
