"""What holds under each of several profiles that are judged by themselves: the line that closes their verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from whichloop.text.numbers import listed_names

from .each_profile import each_of
from .few_tasks_table import FewTasksTable
from .matrix import BEST, COMPARED, AnswerMatrix, AnswerRow, place_in_column
from .sentence import AnswerSentence


def robust_choice(matrix: AnswerMatrix, tasks: FewTasksTable) -> tuple[str, ...]:
    """Return the loops than which none is shown to be better under any of the profiles, where some other loop is beaten.

    Empty of a few tasks with repeats, which show nothing of tasks in general, and where nothing holds over all loops.
    """
    best = [] if tasks.is_shown else [row.loop for row in _unbeaten(matrix)]
    return tuple(best) if len(best) < len(matrix.rows) else ()


def over_estimates(matrix: AnswerMatrix, tasks: FewTasksTable) -> Iterator[AnswerSentence]:
    """Yield which loops are among the best under each of the profiles; which of them to adopt, the verdict on each profile says.

    Places are of what tests show of tasks in general: where few `tasks` have repeats, which show something of these alone, that is
    said. Nothing where nothing holds over all loops.
    """
    if not _is_whole(matrix):
        return
    every, of = each_of(matrix.columns), _beyond(tasks)
    best = _unbeaten(matrix)
    if not best:
        yield AnswerSentence(f"No loop is among the best under {every}{of}")
        return
    columns = range(len(matrix.columns))
    is_alone = len(best) == 1 and all(
        place_in_column(row, n) == "lower" for row in matrix.rows if row is not best[0] for n in columns
    )
    if is_alone:
        yield AnswerSentence(f"Under {every} {best[0].loop} has the highest accuracy{of}")
    else:
        yield AnswerSentence(f"Under {every} no loop is shown to beat {listed_names([row.loop for row in best])}{of}")


def _is_whole(matrix: AnswerMatrix) -> bool:
    """Whether something holds over all loops: there are several, under several profiles, each of which applies to each loop."""
    columns = range(len(matrix.columns))
    return len(columns) > 1 and all(place_in_column(row, n) in COMPARED for row in matrix.rows for n in columns)


def _unbeaten(matrix: AnswerMatrix) -> list[AnswerRow]:
    """Return the loops that are among the best under each of the profiles; none where nothing holds over all loops."""
    columns = range(len(matrix.columns))
    return [row for row in matrix.rows if all(place_in_column(row, n) in BEST for n in columns)] if _is_whole(matrix) else []


def _beyond(tasks: FewTasksTable) -> str:
    """Return of which tasks it holds, where a verdict on a few tasks themselves stands before it; else empty."""
    return f" on tasks like these, beyond the {len(tasks.tasks)} at hand" if tasks.is_shown else ""
