"""What a table's words say of how a trial ended: in a column of the status, or in that of the score (`PASS`, `FAIL`, `ERROR`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.left_out import BLANK_SCORE
from whichloop.protocol.values import counted

from .foreign_trials import Status
from .table_rows import Row
from .values import MAX_ANSWER_CHARS, UNIT, ScoreScale, is_cut, is_nothing, is_number, reason_line, score, short_value

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


MAX_WORDS = 6
"""Most different words of a column of scores that are told."""


def scores_in_words(rows: Sequence[Row], name: str, scale: ScoreScale | None) -> Iterator[str]:
    """Yield which words of a column of scores were read as which number, where others are numbers, and which as no score.

    `rows`: their cells stand under the meanings of the columns. Words alone, such as PASS and FAIL, are one kind of score.
    """
    words, words_without_score = dict[str, list[str]](), dict[str, list[str]]()
    read_as, ends, has_numbers = dict[str, str](), scale or UNIT, False
    for row in rows:
        cell = row.cells["score"]
        if is_nothing(cell):
            if isinstance(cell, str) and cell.strip():
                words_without_score.setdefault(short_value(cell.strip()), []).append(row.place)
        elif is_number(cell):
            has_numbers = True
        elif status_in_score(cell) is None:
            word = short_value(cell.strip() if isinstance(cell, str) else cell)
            words.setdefault(word, []).append(row.place)
            read_as[word] = f"{ends.worst + (score(cell, scale) or 0.0) * (ends.best - ends.worst):g}"
    remarks = [_read_so(word, read_as[word], places) for word, places in words.items() if has_numbers]
    remarks += [_read_so(word, "no score", places) for word, places in words_without_score.items()]
    if remarks:
        more = f" and {counted(len(remarks) - MAX_WORDS, 'other')}" if len(remarks) > MAX_WORDS else ""
        yield f"column {short_value(name)} is read so: {', '.join(remarks[:MAX_WORDS])}{more}"


def _read_so(word: str, read_as: str, places: Sequence[str]) -> str:
    """Return `'yes' as 1 in 12 cells, the first in line 8`."""
    where = f" ({places[0]})" if len(places) == 1 else f" in {len(places):,} cells (the first in {places[0]})"
    return f"{word} as {read_as}{where}"


def answers_cut(answers: Iterable[tuple[str, Any]], column: str = "") -> Iterator[str]:
    """Yield how many answers are cut. `answers`: where each stands, and what is kept of it. `column`: of a table."""
    cut = [where for where, answer in answers if is_cut(answer)]
    if cut:
        where = cut[0] if len(cut) == 1 else f"the first: {cut[0]}"
        number = counted(len(cut), "answer is", "answers are")
        of = f"column {short_value(column)}: " if column else ""
        yield f"{of}{number} cut to {MAX_ANSWER_CHARS:,} characters ({where})"
