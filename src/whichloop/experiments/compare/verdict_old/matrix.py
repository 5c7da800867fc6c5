"""The matrix of a comparison: loops × suites and profiles, each cell with the place of its accuracy, and what a trial costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from whichloop.metrics.arm_info import are_imported
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import labels
from whichloop.metrics.views import Unit
from whichloop.protocol.names import SCRIPTED
from whichloop.text.numbers import dollars_text, interval_of, short_name

from ..measured_forms import applies, are_mixed

T = TypeVar("T")
Place = Literal["highest", "not told apart", "lower", "does not apply"]
"""highest: has the highest mean; not told apart: from one of those, beyond chance; lower: worse than it; does not apply: the
profile was measured of calls in another form than the loop's."""
NOT_APPLICABLE: Place = "does not apply"
"""What stands in the place of an accuracy, which is that of no model."""
SIGNS: Mapping[Place | None, str] = {"highest": " *", "not told apart": " =", "lower": "", NOT_APPLICABLE: "", None: ""}
"""What stands behind an accuracy in plain text."""
AGENT = "agent"
"""What an arm of another tool is called, whose results were imported."""
COMPARED: frozenset[Place | None] = frozenset({"highest", "not told apart", "lower"})
"""Places of arms that are compared with others."""
BEST: frozenset[Place | None] = frozenset({"highest", "not told apart"})
"""Places of arms than which none is shown to be better."""


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One suite under one profile."""

    suite: str
    profile: str


@dataclass(frozen=True, slots=True)
class AnswerCell:
    """A loop's accuracy in one column. `place` is None in an invalid run, and for an arm that is compared with no other."""

    arm: ArmResult
    place: Place | None

    @property
    def accuracy(self) -> Interval | None:
        """The accuracy; None where it is not known, or where the profile does not apply to the loop."""
        return None if self.place == NOT_APPLICABLE else self.arm.summary.accuracy


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A loop: a cell for each column, None where it did not run, and what a trial costs on average."""

    loop: str
    cells: tuple[AnswerCell | None, ...]
    cost: Interval | None
    """Mean over the columns, in the answer's unit. Its ends are the means of the columns' ends: at least as far apart as needed.
    None too where each column is judged by itself."""
    costs: tuple[Interval | None, ...]
    """The same for each column."""

    @property
    def accuracy(self) -> float:
        """The mean accuracy over the columns; -1 where none is known."""
        accuracies = [cell.accuracy for cell in self.cells if cell is not None]
        values = [each.value for each in accuracies if each is not None]
        return math.fsum(values) / len(values) if values else -1.0

    @property
    def mean_cost(self) -> float:
        """What a trial costs on average; infinite where it is not known."""
        return math.inf if self.cost is None else self.cost.value

    @property
    def solved_cost(self) -> float:
        """What a solved task costs on average, with what was spent in vain; infinite where none was solved, or it is not known."""
        return self.mean_cost / self.accuracy if self.accuracy > 0 else math.inf

    @property
    def scored(self) -> int:
        """Number of scored trials."""
        return sum(cell.arm.summary.scored for cell in self.cells if cell is not None)

    @property
    def crashed(self) -> int:
        """Number of them in which the loop crashed."""
        return sum(sum(cell.arm.summary.crashes.values()) for cell in self.cells if cell is not None)

    @property
    def arms(self) -> frozenset[str]:
        """The names of the loop's arms."""
        return frozenset(cell.arm.info.arm for cell in self.cells if cell is not None)


@dataclass(frozen=True, slots=True)
class AnswerMatrix:
    """Loops × columns, the most accurate loop first."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[AnswerRow, ...]
    unit: Unit
    is_apart: bool
    """Whether each of several columns is judged by itself, so that no mean over them is told."""

    def with_costs(self, cells: Sequence[T], costs: Sequence[T]) -> list[T]:
        """Return what stands in a row: its columns, and behind them their mean cost; or each column's cost beside it.

        `costs`: one, or one for each column where `is_apart`.
        """
        if not self.is_apart:
            return [*cells, *costs]
        return [each for pair in zip(cells, costs, strict=True) for each in pair]

    def costs_of(self, row: AnswerRow) -> tuple[Interval | None, ...]:
        """Return what a trial of a loop costs: the mean over the columns, or one cost for each where `is_apart`."""
        return row.costs if self.is_apart else (row.cost,)

    def heading(self, column: AnswerColumn) -> str:
        """Return the profile, with the suite where there are several."""
        several = len({each.suite for each in self.columns}) > 1
        return f"{column.suite}, {column.profile}" if several else column.profile

    def under(self, pair: Pair) -> str:
        """Return ` under flaky-tools`, the column of a pair's arms; empty where there is only one column."""
        if len(self.columns) == 1:
            return ""
        place = next(n for row in self.rows for n, cell in enumerate(row.cells) if cell and cell.arm.info.arm == pair.a)
        return f" under {self.heading(self.columns[place])}"

    @property
    def subject(self) -> str:
        """What a row is called: an agent where other tools' results were imported, which may differ in anything; else a loop."""
        infos = [cell.arm.info for row in self.rows for cell in row.cells if cell is not None]
        return AGENT if are_imported(infos) else "loop"

    @property
    def compared(self) -> list[int]:
        """The columns in which loops are compared with each other."""
        return [n for n in range(len(self.columns)) if any(place_in_column(row, n) in COMPARED for row in self.rows)]

    @property
    def profiles(self) -> list[str]:
        """The profiles of the scripted model under which loops were run; of a run of other models none."""
        infos = [cell.arm.info for row in self.rows for cell in row.cells if cell is not None]
        return list(dict.fromkeys(info.profile for info in infos)) if all(info.model == SCRIPTED for info in infos) else []


def unit_of_cost(arms: Sequence[ArmResult]) -> Unit:
    """Return what costs are told in: dollars where they are known of all arms, or of some and tokens of none.

    Dollars are uncached, as limits and budgets count them, unless that is known of no arm.
    """
    in_usd, in_tokens, uncached = (
        [arm.summary.means[unit] is not None for arm in arms] for unit in ("cost_usd", "tokens", "nominal_usd")
    )
    if not arms or not (all(in_usd) or (any(in_usd) and not any(in_tokens))):
        return "tokens"
    return "nominal_usd" if uncached == in_usd else "cost_usd"


def cost_text(value: float, unit: Unit) -> str:
    """Return a cost without its unit."""
    return f"{value:z,.0f}" if unit == "tokens" else dollars_text(value)


def with_sign(value: float, unit: Unit) -> str:
    """Return a cost with its currency's sign, and without what else its unit says: `$0.00081`, `5,090`."""
    written = cost_text(value, unit)
    return written if unit == "tokens" else f"${written}"


def counted_in(unit: Unit) -> str:
    """Return what a table calls a unit that stands there alone: `USD uncached`, `tokens`."""
    return labels([unit])[unit]


def with_unit(written: str, unit: Unit) -> str:
    """Return a written cost with its unit: `$0.00081 uncached`, `$0.00081`, `5,090 tokens`."""
    if unit == "tokens":
        return f"{written} tokens"
    return f"${written} uncached" if unit == "nominal_usd" else f"${written}"


def cost_in_words(value: Interval, unit: Unit) -> str:
    """Return a cost with its interval."""
    return interval_of(value, lambda number: cost_text(number, unit))


def gap_in_words(pair: Pair, unit: Unit) -> str:
    """Return a paired difference of costs with its interval; where it is shown, an end at 0 is told as beyond it: `[>0, 1,039]`."""
    difference, is_shown = pair.difference, pair.verdict.word in ("better", "worse")

    def written(number: float) -> str:
        text = cost_text(number, unit)
        if not is_shown or text != cost_text(0.0, unit):
            return text
        return ">0" if difference.value > 0 else "<0"

    return interval_of(difference, written)


def matrix_of(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> AnswerMatrix:
    """Return the matrix of arms. `pairs`: on accuracy; empty where no verdict holds."""
    columns = tuple(dict.fromkeys(AnswerColumn(arm.info.suite, arm.info.profile) for arm in arms))
    unit, is_apart = unit_of_cost(arms), len(columns) > 1 and are_mixed([arm.info for arm in arms])
    rows = _rows(arms, pairs, columns, unit)
    return AnswerMatrix(columns, tuple(replace(row, cost=None) for row in rows) if is_apart else rows, unit, is_apart)


def _rows(arms: Sequence[ArmResult], pairs: Sequence[Pair], columns: Sequence[AnswerColumn], unit: Unit) -> tuple[AnswerRow, ...]:
    cells: dict[str, list[AnswerCell | None]] = {short_name(arm.info): [None] * len(columns) for arm in arms}
    for number, column in enumerate(columns):
        own = [arm for arm in arms if (arm.info.suite, arm.info.profile) == (column.suite, column.profile)]
        other_form = {arm.info.arm: NOT_APPLICABLE for arm in own if not applies(arm.info)}
        accuracies = {arm.info.arm: arm.summary.accuracy for arm in own if arm.summary.accuracy is not None}
        place = places({arm: accuracy for arm, accuracy in accuracies.items() if arm not in other_form}, pairs) | other_form
        for arm in own:
            cells[short_name(arm.info)][number] = AnswerCell(arm, place.get(arm.info.arm))
    rows = [
        AnswerRow(loop, tuple(row_cells), _cost(row_cells, unit), tuple(_cost([cell], unit) for cell in row_cells))
        for loop, row_cells in cells.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.accuracy))


def places(accuracy: Mapping[str, Interval], pairs: Sequence[Pair]) -> dict[str, Place]:
    """Return where each arm stands among those that have the highest mean; without those that no pair compares."""
    own = [pair for pair in pairs if pair.a in accuracy and pair.b in accuracy]
    # Means are rounded, since sums of the same scores differ in their last digits.
    means = {name: round(accuracy[name].value, 9) for pair in own for name in (pair.a, pair.b)}
    highest = {name for name, mean in means.items() if mean == max(means.values())}
    different = {frozenset((pair.a, pair.b)) for pair in own if pair.verdict.word in ("better", "worse")}

    def place(arm: str) -> Place:
        if arm in highest:
            return "highest"
        return "lower" if any(frozenset((arm, best)) in different for best in highest) else "not told apart"

    return {name: place(name) for name in means}


def _cost(cells: Sequence[AnswerCell | None], unit: Unit) -> Interval | None:
    costs = [cell.arm.summary.means[unit] for cell in cells if cell is not None and cell.place != NOT_APPLICABLE]
    known_costs = [each for each in costs if each is not None]
    if not known_costs or len(known_costs) < len(costs):
        return None
    n = len(known_costs)
    low, value, high = (
        math.fsum(ends) / n for ends in zip(*((each.low, each.value, each.high) for each in known_costs), strict=True)
    )
    fewest = min(known_costs, key=lambda each: each.n)
    return Interval(value, low, high, fewest.n, fewest.units)


def pairs_of(pairs: Sequence[Pair], one: AnswerRow, other: AnswerRow) -> list[Pair]:
    """Return the pairs of two loops, the first loop's arm being the first of each."""
    first, second = one.arms, other.arms
    return [
        pair if pair.a in first else pair.turned
        for pair in pairs
        if (pair.a in first and pair.b in second) or (pair.b in first and pair.a in second)
    ]


def place_in_column(row: AnswerRow, number: int) -> Place | None:
    """Return the place of a row in a column; None where it has no cell there."""
    cell = row.cells[number]
    return None if cell is None else cell.place
