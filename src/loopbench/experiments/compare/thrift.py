"""A loop that costs less, and loses no more accuracy to the best than the margin: a difference that is too small to matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.metrics.comparison import Pair

from .matrix import AnswerRow


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
        shown to lose something; it is cheaper than each of them by the means, and shown to be cheaper than the last one under
        some profile and dearer under none. No other loop is shown to be better by more than the margin. None where there is no
        such loop.
        """
        best = named[-1]
        found = [made for row in self.rows if row not in named and (made := self._replacing(best, row, named)) is not None]
        return min(found, key=lambda made: -made.saving, default=None)

    def _replacing(self, best: AnswerRow, row: AnswerRow, named: Sequence[AnswerRow]) -> Thrift | None:
        if not all(saving(row, each) > 0 and self._is_within_margin(each, row) for each in named):
            return None
        if not self._is_shown_cheaper(row, best) or any(self._is_beaten(row, other) for other in self.rows):
            return None
        shown = [pair for pair in self._between(self.accuracy, best, row) if pair.verdict.word == "better"]
        together = next((pair for pair in self._together(best, row) if pair.verdict.word == "better"), None)
        if together is None and not shown:
            return None
        gap = max(shown, key=lambda pair: pair.difference.value) if together is None else together
        return Thrift(best, row, gap, together is not None, saving(row, best))

    def _is_within_margin(self, best: AnswerRow, row: AnswerRow) -> bool:
        """Whether the difference is shown to be within the margin in every column, and over all of them together."""
        own = list(self._between(self.accuracy, best, row))
        met = [[cell is not None for cell in each.cells] for each in (best, row)]
        every = met[0] == met[1] and len(own) == sum(met[0])
        return every and all(pair.verdict.within_margin for pair in (*own, *self._together(best, row)))

    def _is_shown_cheaper(self, row: AnswerRow, than: AnswerRow) -> bool:
        words = {pair.verdict.word for pair in self._between(self.costs, row, than)}
        return "better" in words and "worse" not in words

    def _is_beaten(self, row: AnswerRow, other: AnswerRow) -> bool:
        """Whether another loop is shown to be better somewhere, and not to be better by less than the margin."""
        pairs = (*self._between(self.accuracy, other, row), *self._together(other, row))
        return any(pair.verdict.word == "better" and not pair.verdict.within_margin for pair in pairs)

    @staticmethod
    def _between(pairs: Sequence[Pair], one: AnswerRow, other: AnswerRow) -> Iterator[Pair]:
        """Yield the pairs of two loops, the first loop's arm being the first of each."""
        first, second = ({cell.arm.info.arm for cell in row.cells if cell is not None} for row in (one, other))
        for pair in pairs:
            if pair.a in first and pair.b in second:
                yield pair
            elif pair.b in first and pair.a in second:
                yield pair.turned

    def _together(self, one: AnswerRow, other: AnswerRow) -> Iterator[Pair]:
        """Yield the pair of two loops over all profiles together, the same way round."""
        for pair in self.pooled:
            if {pair.a, pair.b} == {one.loop, other.loop}:
                yield pair if pair.a == one.loop else pair.turned


def saving(row: AnswerRow, than: AnswerRow) -> float:
    """Return the share of a loop's mean cost that another one saves; 0 where it saves none, or where a cost is not known."""
    if row.cost is None or than.cost is None or row.cost.value >= than.cost.value:
        return 0.0
    return 1 - row.cost.value / than.cost.value
