"""What loops cost, in words: by the trial, and by the solved task where the two put loops in another order.

A loop that gives up early or crashes spends little on a trial and solves little, so that a loop is called cheaper only if a task
that it solved cost less; and where it crashed, that is said. A loop is called cheaper than another only
if the pairs of their costs show it, in some column and in none the other way; else their costs are not told apart. That it costs
less by the solved task is said only if the interval of the paired ratio shows it; else that is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import MAX_FEW_TASKS, Pair
from whichloop.metrics.reliability import NO_SOLVED_COSTS, SolvedCosts
from whichloop.metrics.statistics import Interval
from whichloop.protocol.values import counted
from whichloop.text.numbers import interval, listed_names

from .matrix import AnswerMatrix, AnswerRow, gap_in_words, pairs_of, with_sign, with_unit

MAX_COLUMNS = 2
"""Columns whose paired differences a sentence names."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The costs of a matrix's loops, in its unit."""

    matrix: AnswerMatrix
    costs: tuple[Pair, ...]
    """Pairs of arms in the unit that costs are told in."""
    solved_costs: SolvedCosts = NO_SOLVED_COSTS

    def with_cost(self, row: AnswerRow, *, has_unit: bool = True) -> str:
        """Return `finish (6,387 tokens a trial)`; the name alone where the cost is not known."""
        cost_words = [] if row.cost is None else [self.per_trial(row) if has_unit else self.price(row)]
        notes = "; ".join([*cost_words, *filter(None, [_crashes(row)])])
        return f"{row.loop} ({notes})" if notes else row.loop

    def per_trial(self, row: AnswerRow) -> str:
        """Return what a trial costs, with its unit."""
        return f"{self.price(row)}{self._unit} a trial"

    def price(self, row: AnswerRow) -> str:
        """Return what a trial costs, without its unit."""
        return "" if row.cost is None else self._written(row.cost.value)

    @property
    def _unit(self) -> str:
        return with_unit("", self.matrix.unit).removeprefix("$")

    def _written(self, value: float) -> str:
        return with_sign(value, self.matrix.unit)

    def _per_solved(self, row: AnswerRow) -> str:
        """Return what a solved task costs, without its unit."""
        return "nothing solved" if math.isinf(row.solved_cost) else self._written(row.solved_cost)

    # Beside the loop that is adopted

    def cheaper_than(
        self, best: AnswerRow, others: Sequence[AnswerRow] | None = None, equals: Sequence[AnswerRow] | None = None
    ) -> str:
        """Return which of other loops, or of all, is the cheapest, with both costs, as a sentence's end.

        `equals`: those as good as the best one, if others are not: that costs are not told apart matters of these alone.
        Empty where none costs less as written. Where the loop that spends least on a trial is not the one that spends least on a
        solved task, both are told. Where the paired costs do not tell a loop from the best one, that is said instead.
        """
        among = self.matrix.rows if others is None else others
        shown_cheaper = self._shown_cheaper(best, among)
        least, cheapest = self._least_spending(best, shown_cheaper), self._cheaper_by_solved(best, shown_cheaper)
        if cheapest is not None and least is cheapest:
            less = self.paired_saving(least, best)
            return f"; {least.loop} is cheaper ({self.per_trial(least)} against {self.price(best)}{less}){crashes(least)}"
        spends = ""
        if least is not None:
            spent = f"({self.price(least)}{self._unit} against {self.price(best)}{self.paired_saving(least, best)})"
            spends = f"; {least.loop} spends less on a trial {spent}{crashes(least)}"
        if cheapest is not None:
            solved = (
                f"({self._per_solved(cheapest)}{self._unit} against {self._per_solved(best)}{self._ratio_told(cheapest, best)})"
            )
            if not self._is_less_by_solved(cheapest, best):
                return f"; whether {cheapest.loop} costs less by the solved task is undecided {solved}{crashes(cheapest)}{spends}"
            return f"; {cheapest.loop} costs less by the solved task {solved}{crashes(cheapest)}{spends}"
        if least is None:
            return self._not_told_apart(best, among if equals is None else equals, has_costs=True)
        solved = f"({self._per_solved(least)} against {self._per_solved(best)}{self._ratio_told(least, best)})"
        return f"{spends}, but {self._on_solved(least, best)} {solved}"

    def _ratio(self, row: AnswerRow, than: AnswerRow) -> Interval | None:
        """Return the paired ratio of what a solved task costs in two loops; None where that is not known."""
        arms = [[cell and cell.arm.info.arm for cell in each.cells] for each in (row, than)]
        cost_pairs = [(a, b) for a, b in zip(*arms, strict=True) if a or b]
        both = [(a, b) for a, b in cost_pairs if a and b]
        if len(both) < len(cost_pairs):
            return None
        return self.solved_costs.ratio([a for a, _ in both], [b for _, b in both], self.matrix.unit)

    def _ratio_told(self, row: AnswerRow, than: AnswerRow) -> str:
        """Return `, paired ratio 0.54 [0.44, 0.66]`; empty where it has no interval."""
        ratio = self._ratio(row, than)
        return "" if ratio is None else f", paired ratio {interval(ratio, 2)}"

    def _is_less_by_solved(self, row: AnswerRow, than: AnswerRow) -> bool:
        """Whether a solved task is shown to cost less in one loop than in another one."""
        ratio = self._ratio(row, than)
        return ratio is not None and ratio.high < 1

    def _on_solved(self, row: AnswerRow, than: AnswerRow) -> str:
        """Return whether a loop that spends less on a trial spends more on a solved task, as a clause behind a `but`."""
        is_more = self._is_less_by_solved(than, row) or math.isinf(row.solved_cost)
        return "more on a solved task" if is_more else "whether it does so on a solved task is undecided"

    def unknown(self) -> str:
        """Return whose costs are unknown where others' are known, as a sentence's end: such a loop may be the cheapest."""
        names = [row.loop for row in self.matrix.rows if row.cost is None]
        return f"; what {listed_names(names)} costs is unknown" if 0 < len(names) < len(self.matrix.rows) else ""

    def paired_saving(self, row: AnswerRow, than: AnswerRow) -> str:
        """Return `, paired difference 1,200 [900, 1,500]`: how much less a trial costs than another loop's, under each profile.

        Empty where every trial costs less by the same, for the two costs say it all, and for more profiles than a sentence names.
        """
        pairs = [pair.turned for pair in pairs_of(self.costs, row, than)]
        if not 0 < len(pairs) <= MAX_COLUMNS or any(self._is_the_same(pair) for pair in pairs):
            return ""
        gaps = [gap_in_words(pair, self.matrix.unit) for pair in pairs]
        each = [f"{gap}{self.matrix.under(pair)}" for gap, pair in zip(gaps, pairs, strict=True)]
        return f", paired difference {' and '.join(each)}"

    def _is_the_same(self, pair: Pair) -> bool:
        gap = pair.difference
        return gap.is_known and self._written(gap.low) == self._written(gap.high)

    def saved(self, best: AnswerRow, equals: Sequence[AnswerRow] | None = None) -> str:
        """Return how much less than a loop the cheapest of all costs, in few words; empty where none costs less as written.

        `equals`: as in `cheaper_than`.
        """
        shown_cheaper = self._shown_cheaper(best, self.matrix.rows)
        least, cheapest = self._least_spending(best, shown_cheaper), self._cheaper_by_solved(best, shown_cheaper)
        if cheapest is None:
            if least is None:
                return self._not_told_apart(best, self.matrix.rows if equals is None else equals)
            return f"; {least.loop} spends less on a trial, but {self._on_solved(least, best)}{crashes(least)}"
        if least is cheapest:
            return f"; {least.loop} costs {100 * saving(least, best):.0f} % less{crashes(least)}"
        if not self._is_less_by_solved(cheapest, best):
            return f"; whether {cheapest.loop} costs less by the solved task is undecided{crashes(cheapest)}"
        share = 1 - cheapest.solved_cost / best.solved_cost
        return f"; {cheapest.loop} costs {100 * share:.0f} % less by the solved task{crashes(cheapest)}"

    def _shown_cheaper(self, best: AnswerRow, others: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops that are shown to cost less than the best one."""
        return [row for row in others if is_shown_cheaper(row, best, self.costs)]

    def _not_told_apart(self, best: AnswerRow, others: Sequence[AnswerRow], *, has_costs: bool = False) -> str:
        """Return that a loop that costs less by the means is not told apart in cost; empty where none does.

        A loop is left out that is shown to be less accurate, and whose solved tasks cost no less: it is cheap because it gives up.
        """
        rivals = [row for row in others if not _is_worse(row) or row.solved_cost < best.solved_cost]
        row = self._least_spending(best, rivals) or self._cheaper_by_solved(best, rivals)
        if row is None or self._are_of_few_tasks:
            return ""
        costs = f" ({self.per_trial(best)} and {self.price(row)})" if has_costs else ""
        return f"; the costs of {best.loop} and {row.loop} are not told apart{costs}"

    @property
    def _are_of_few_tasks(self) -> bool:
        """Whether tasks are so few that even costs which differ on each of them may not be told apart."""
        return bool(self.costs) and all(pair.difference.n <= MAX_FEW_TASKS for pair in self.costs)

    def _least_spending(self, best: AnswerRow, others: Sequence[AnswerRow]) -> AnswerRow | None:
        """Return the loop that spends the least on a trial; None where that is no less than the best one spends, as written."""
        known_costs = [(row.cost.value, row) for row in others if row.cost is not None and row is not best]
        cost, least = min(known_costs, key=lambda each: each[0], default=(math.inf, best))
        is_less = best.cost is not None and cost < best.cost.value and self.price(least) != self.price(best)
        return least if is_less else None

    def _cheaper_by_solved(self, best: AnswerRow, others: Sequence[AnswerRow]) -> AnswerRow | None:
        """Return the loop whose solved tasks cost the least; None where they cost no less than the best one's, as written."""
        cheapest = cheapest_below(best, others)
        return None if cheapest is None or self._per_solved(cheapest) == self._per_solved(best) else cheapest

    # Where no loop is better than another

    def least(self, cheapest: AnswerRow) -> str:
        """Return which loops are the cheapest, or that all cost the same as written, or are not told apart in cost.

        `cheapest`: by the solved task.
        """
        priced = [row for row in self.matrix.rows if row.cost is not None]
        if cheapest.cost is None or len(priced) == 1 < len(self.matrix.rows):
            return ""
        spent = min(row.cost.value for row in priced if row.cost is not None)
        equal = [row for row in priced if self.price(row) == self._written(spent)]
        each = f"({self._written(spent)}{self._unit} a trial)"
        if len(equal) == len(self.matrix.rows):
            return f"; they cost the same {each}"
        if not any(is_shown_cheaper(row, other, self.costs) for row in (cheapest, *equal) for other in priced):
            return "" if self._are_of_few_tasks else "; their costs are not told apart"
        if cheapest not in equal:
            spend = "spends" if len(equal) == 1 else "spend"
            by_trial = f"{listed_names([row.loop for row in equal])} {spend} the least on a trial {each}"
            if not self._is_less_by_solved(cheapest, equal[0]):
                return f"; which costs the least by the solved task is undecided; {by_trial}"
            solved = f"({self._per_solved(cheapest)}{self._unit}{self._ratio_told(cheapest, equal[0])} to {equal[0].loop})"
            return f"; by the solved task {cheapest.loop} costs less {solved}; {by_trial}"
        names = listed_names([cheapest.loop, *(row.loop for row in equal if row is not cheapest)])
        crashed = crashes(cheapest) if len(equal) == 1 else ""
        return f"; the cheapest {'is' if len(equal) == 1 else 'are'} {names} {each}{crashed}"


def cheapest_below(best: AnswerRow, others: Sequence[AnswerRow]) -> AnswerRow | None:
    """Return the loop whose solved tasks cost the least; None where they cost no less than the best one's, or that is unknown."""
    if best.cost is None:
        return None
    cheapest = min((row for row in others if row is not best), key=lambda row: row.solved_cost, default=best)
    return cheapest if cheapest.solved_cost < best.solved_cost else None


def _is_worse(row: AnswerRow) -> bool:
    """Whether a loop is shown to be less accurate than the best in some column, and is the best in none."""
    places = {cell.place for cell in row.cells if cell is not None}
    return "lower" in places and "highest" not in places


def is_shown_cheaper(row: AnswerRow, than: AnswerRow, costs: Sequence[Pair]) -> bool:
    """Whether pairs of arms show that a loop costs less than another one in some column, and more in none."""
    words = {pair.verdict.word for pair in pairs_of(costs, row, than)}
    return "better" in words and "worse" not in words


def saving(row: AnswerRow, than: AnswerRow) -> float:
    """Return the share of a loop's mean cost that another one saves; 0 where it saves none, or where a cost is not known."""
    if row.cost is None or than.cost is None or row.cost.value >= than.cost.value:
        return 0.0
    return 1 - row.cost.value / than.cost.value


def crashes(row: AnswerRow) -> str:
    """Return in how many trials a loop crashed, as a clause behind its cost; empty where it did in none."""
    clause = _crashes(row)
    return f", and {clause}" if clause else ""


def _crashes(row: AnswerRow) -> str:
    return f"crashed in {row.crashed:,} of {counted(row.scored, 'trial')}" if row.crashed else ""
