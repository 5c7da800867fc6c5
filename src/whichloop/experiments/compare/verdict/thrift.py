"""A loop that costs less, and loses no more accuracy to the best than the margin: a difference that is too small to matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair

from .matrix import AnswerRow, pairs_of
from .prices import is_shown_cheaper, saving


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
        if not all(_is_cheaper(row, each) and self._is_within_margin(each, row) for each in named):
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


def _is_cheaper(row: AnswerRow, than: AnswerRow) -> bool:
    return saving(row, than) > 0 and row.solved_cost < than.solved_cost
