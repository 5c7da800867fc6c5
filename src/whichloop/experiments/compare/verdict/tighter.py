"""Which loop would be ahead of the adopted one if each trial might spend less, where a paired test shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import AtBudget
from whichloop.runs.config import flag_of
from whichloop.text.numbers import interval, limit_text

from .matrix import AnswerMatrix, AnswerRow, with_unit
from .sentence import AnswerSentence

MAX_COLUMNS = 2
"""Columns that are told."""


@dataclass(frozen=True, slots=True)
class Reversal:
    """A loop that is better than the adopted one where only what cost at most `budget` counts as solved."""

    budget: float
    pair: Pair
    """The other loop's arm minus that of the adopted one."""
    loop: str
    adopted: str
    is_turned: bool
    """Whether the other loop is no more accurate without a limit."""

    def in_words(self, matrix: AnswerMatrix) -> str:
        """Return `with at most 3,412 tokens a trial bare is ahead of finish under calm`."""
        most = with_unit(limit_text(self.budget), matrix.unit)
        return f"with at most {most} a trial {self.loop} is ahead of {self.adopted}{matrix.under(self.pair)}"


def tighter_limits(matrix: AnswerMatrix, budgets: Sequence[AtBudget], adopted: Mapping[str, str]) -> Iterator[AnswerSentence]:
    """Yield below which cost of a trial another loop is ahead, of each column the highest that shows it.

    `adopted`: profile → the loop that the answer adopts under it. Budgets and tests are those of the views of a run: quartiles of
    what its trials cost, all pairs and budgets of a column being one family.
    """
    rows = {cell.arm.info.arm: row for row in matrix.rows for cell in row.cells if cell is not None}
    limits = [
        limit for profile, loop in adopted.items() if (limit := _highest(budgets, rows, profile, loop, matrix.unit)) is not None
    ]
    if not limits:
        return
    limits = sorted(limits, key=lambda each: -each.budget)[:MAX_COLUMNS]
    path = ("trial_budget", "tokens" if matrix.unit == "tokens" else "dollars")
    each = [f"{one.in_words(matrix)}, by {interval(one.pair.difference, 3)}" for one in limits]
    what = "reverses the order" if all(one.is_turned for one in limits) else "tells them apart"
    sentence = f"A tighter limit {what}: {'; '.join(each)} (what costs more is not solved, as under {flag_of(path)})"
    first = "reverses the order" if limits[0].is_turned else "tells them apart"
    brief = limits[0].in_words(matrix)
    yield AnswerSentence(sentence, f"A tighter limit {first}: {brief}", f"{brief[0].upper()}{brief[1:]}")


def _highest(budgets: Sequence[AtBudget], rows: Mapping[str, AnswerRow], profile: str, adopted: str, unit: str) -> Reversal | None:
    """Return the reversal at the highest budget of one profile, the largest one there; None where no test shows any."""
    reversals = []
    for at in budgets:
        if (at.profile, at.unit) != (profile, unit):
            continue
        for pair in (turned for each in at.pairs for turned in (each, each.turned)):
            if pair.verdict.word == "better" and rows[pair.b].loop == adopted:
                reversals.append(_reversal(at.budget, pair, rows))
    return max(reversals, key=lambda each: (each.budget, each.pair.difference.value), default=None)


def _reversal(budget: float, pair: Pair, rows: Mapping[str, AnswerRow]) -> Reversal:
    """Return what a budget shows of a pair of arms, the first of which is ahead at it."""
    own, other = (
        next(cell.arm.summary.means for cell in rows[arm].cells if cell is not None and cell.arm.info.arm == arm)
        for arm in (pair.a, pair.b)
    )
    solved = (own[PRIMARY], other[PRIMARY])
    is_turned = solved[0] is None or solved[1] is None or solved[0].value <= solved[1].value
    return Reversal(budget, pair, rows[pair.a].loop, rows[pair.b].loop, is_turned)
