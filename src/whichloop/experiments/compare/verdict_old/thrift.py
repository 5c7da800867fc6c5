"""A loop that costs less, and loses no more accuracy to the best than the margin: a difference that is too small to matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import AtBudget
from whichloop.runs.config import flag_of
from whichloop.text.numbers import interval, limit_text

from .matrix import AnswerMatrix, AnswerRow, pairs_of, with_unit
from .prices import is_shown_cheaper, saving
from .sentence import AnswerSentence


@dataclass(frozen=True, slots=True)
class Thrift:
    """A cheaper loop in the place of the most accurate one."""

    best: AnswerRow
    cheaper: AnswerRow
    gap: Pair
    """The best loop minus the cheaper one: over all profiles together where that shows a difference, else the largest."""
    is_pooled: bool

    saving: float
    """The share of the best loop's mean cost that the cheaper one saves, in (0, 1]."""


@dataclass(frozen=True, slots=True)
class ThriftSearch:
    """The loops and their pairs. `costs`: pairs of arms in the unit that the answer tells costs in."""

    rows: Sequence[AnswerRow]
    accuracy: Sequence[Pair]
    costs: Sequence[Pair]
    pooled: Sequence[Pair]

    def instead_of(self, named: Sequence[AnswerRow]) -> Thrift | None:
        """Return the cheapest loop to adopt in the place of those that are named, the last of which is the most accurate.

        It met every profile that they met. To none of them does it lose more than the margin in any, and to the last one it is
        shown to lose something; it is cheaper than each of them by the means, of a trial and of a solved task, and shown to be
        cheaper than the last one under some profile and dearer under none. No other loop is shown to be better by more than the
        margin. None where there is no such loop.
        """
        best = named[-1]
        candidates = [thrift for row in self.rows if row not in named and (thrift := self._replacing(best, row, named)) is not None]
        return min(candidates, key=lambda thrift: -thrift.saving, default=None)

    def _replacing(self, best: AnswerRow, row: AnswerRow, named: Sequence[AnswerRow]) -> Thrift | None:
        if not all(
            (saving(row, each) > 0 and row.solved_cost < each.solved_cost) and self._is_within_margin(each, row) for each in named
        ):
            return None
        if not is_shown_cheaper(row, best, self.costs) or any(self._is_beaten(row, other) for other in self.rows):
            return None
        better_pairs = [pair for pair in pairs_of(self.accuracy, best, row) if pair.verdict.word == "better"]
        together = next((pair for pair in self._together(best, row) if pair.verdict.word == "better"), None)
        if together is None and not better_pairs:
            return None
        gap = max(better_pairs, key=lambda pair: pair.difference.value) if together is None else together
        return Thrift(best, row, gap, together is not None, saving(row, best))

    def _is_within_margin(self, best: AnswerRow, row: AnswerRow) -> bool:
        """Whether the difference is shown to be within the margin in every column, and over all of them together."""
        own = pairs_of(self.accuracy, best, row)
        is_scored = [[cell is not None for cell in each.cells] for each in (best, row)]
        every = is_scored[0] == is_scored[1] and len(own) == sum(is_scored[0])
        return every and all(pair.verdict.within_margin for pair in (*own, *self._together(best, row)))

    def _is_beaten(self, row: AnswerRow, other: AnswerRow) -> bool:
        """Whether another loop is shown to be better somewhere, and not to be better by less than the margin."""
        pairs = (*pairs_of(self.accuracy, other, row), *self._together(other, row))
        return any(pair.verdict.word == "better" and not pair.verdict.within_margin for pair in pairs)

    def _together(self, one: AnswerRow, other: AnswerRow) -> Iterator[Pair]:
        """Yield the pair of two loops over all profiles together, the same way round."""
        for pair in self.pooled:
            if {pair.a, pair.b} == {one.loop, other.loop}:
                yield pair if pair.a == one.loop else pair.turned


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
