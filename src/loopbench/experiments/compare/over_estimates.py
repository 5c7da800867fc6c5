"""What holds under each of several profiles that are judged by themselves: the line that closes their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopbench.metrics.comparison import Pair
from loopbench.text.counts import listed

from .matrix import BEST, COMPARED, AnswerMatrix, AnswerRow, place_of
from .sentence import AnswerSentence


def over_estimates(found: AnswerMatrix, costs: Sequence[Pair]) -> Iterator[AnswerSentence]:
    """Yield which loop is among the best under each of the profiles, and which of its equals is shown to be cheaper.

    `costs`: pairs of arms in the unit that costs are told in. Nothing where a profile does not apply to some loop, or where there
    is a single loop: then nothing holds over all of them.
    """
    columns = range(len(found.columns))
    if len(columns) < 2 or not all(place_of(row, n) in COMPARED for row in found.rows for n in columns):
        return
    every = "both profiles" if len(columns) == 2 else f"each of the {len(columns)} profiles"
    best = [row for row in found.rows if all(place_of(row, n) in BEST for n in columns)]
    if not best:
        yield AnswerSentence(f"No loop is among the best under {every}")
        return
    first, *others = best
    stands = _stands(first, best, found.rows, columns)
    are = f"{listed([row.loop for row in others])} {'is' if len(others) == 1 else 'are'}"
    others_too = f"; {are} not told apart from the best" if others else ""
    cheaper = list(_cheaper_equals(first, found, costs))
    price = f"; {', '.join(cheaper)}" if cheaper else f"; none of the equals of {first.loop} is shown to be cheaper under any"
    yield AnswerSentence(f"Under {every} {first.loop} {stands}{price}{others_too}", f"Under {every} {first.loop} {stands}")


def _stands(loop: AnswerRow, best: Sequence[AnswerRow], rows: Sequence[AnswerRow], columns: Sequence[int]) -> str:
    """Return how the accuracy of a loop that is among the best in every column stands to those of the others.

    `best`: all loops that are. That it has the highest accuracy is said only where it is told apart from each other loop.
    """
    if not all(place_of(loop, n) == "highest" for n in columns):
        return "is the most accurate or not told apart from the most accurate"
    is_tied = any(place_of(row, n) == "highest" for row in rows if row is not loop for n in columns)
    if is_tied:
        return "is as accurate as any"
    is_alone = len(best) == 1 and all(place_of(row, n) == "lower" for row in rows if row is not loop for n in columns)
    return "has the highest accuracy" if is_alone else "has the highest mean accuracy, which not every loop is told apart from"


def _cheaper_equals(loop: AnswerRow, found: AnswerMatrix, costs: Sequence[Pair]) -> Iterator[str]:
    """Yield `bare is cheaper under calm` for each profile under which loops as good as this one are shown to cost less."""
    for number, column in enumerate(found.columns):
        own = loop.cells[number]
        arm = None if own is None else own.arm.info.arm
        shown = {pair.a for each in costs for pair in (each, each.turned) if pair.b == arm and pair.verdict.word == "better"}
        cells = ((row.loop, row.cells[number]) for row in found.rows if place_of(row, number) in BEST)
        names = [name for name, cell in cells if cell is not None and cell.arm.info.arm in shown]
        if names:
            are = "is" if len(names) == 1 else "are"
            yield f"{listed(names)} {are} cheaper than {loop.loop} under {found.heading(column)}"
