"""What cells were read as, where that is not what they hold: words among the numbers of a score, scores that say there is none,
and answers that are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from whichloop.protocol.values import counted

from .statuses import status_in_score
from .table_rows import Row
from .values import MAX_ANSWER_CHARS, UNIT, ScoreScale, is_cut, is_nothing, is_number, score, short_value

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
