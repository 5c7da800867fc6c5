"""The matrix of a comparison: loops × suites and profiles, each cell with the place of its accuracy, and what a trial costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loopbench.metrics.comparison import ArmResult, Pair
from loopbench.metrics.statistics import Interval
from loopbench.metrics.views import Unit
from loopbench.text.numbers import dollars, short_name

Place = Literal["highest", "not told apart", "lower"]
"""highest: has the highest mean; not told apart: from one of those, beyond chance; lower: worse than it."""
SIGNS: Mapping[Place | None, str] = {"highest": " *", "not told apart": " =", "lower": "", None: ""}
"""What stands behind an accuracy in plain text."""


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


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A loop: a cell for each column, None where it did not run, and what a trial costs on average."""

    loop: str
    cells: tuple[AnswerCell | None, ...]
    cost: Interval | None
    """Mean over the columns, in the answer's unit. Its ends are the means of the columns' ends: at least as far apart as needed."""

    @property
    def accuracy(self) -> float:
        """The mean accuracy over the columns; -1 where none is known."""
        found = [cell.arm.summary.accuracy for cell in self.cells if cell is not None]
        known = [each.value for each in found if each is not None]
        return math.fsum(known) / len(known) if known else -1.0


def unit_of_cost(arms: Sequence[ArmResult]) -> Unit:
    """Return what costs are told in: dollars where they are known of all arms."""
    return "cost_usd" if arms and all(arm.summary.means["cost_usd"] is not None for arm in arms) else "tokens"


def amount(value: float, unit: Unit) -> str:
    """Return a cost without its unit."""
    return dollars(value) if unit == "cost_usd" else f"{value:,.0f}"


def matrix_rows(
    arms: Sequence[ArmResult], pairs: Sequence[Pair], columns: Sequence[AnswerColumn], unit: Unit
) -> tuple[AnswerRow, ...]:
    cells: dict[str, list[AnswerCell | None]] = {short_name(arm.info): [None] * len(columns) for arm in arms}
    for number, column in enumerate(columns):
        own = [arm for arm in arms if (arm.info.suite, arm.info.profile) == (column.suite, column.profile)]
        known = {arm.info.arm: arm.summary.accuracy for arm in own if arm.summary.accuracy is not None}
        place = places(known, pairs)
        for arm in own:
            cells[short_name(arm.info)][number] = AnswerCell(arm, place.get(arm.info.arm))
    rows = [AnswerRow(loop, tuple(found), _cost(found, unit)) for loop, found in cells.items()]
    return tuple(sorted(rows, key=lambda row: -row.accuracy))


def places(accuracy: Mapping[str, Interval], pairs: Sequence[Pair]) -> dict[str, Place]:
    """Return where each arm stands among those that have the highest mean; without those that no pair compares."""
    own = [pair for pair in pairs if pair.a in accuracy and pair.b in accuracy]
    means = {name: round(accuracy[name].value, 9) for pair in own for name in (pair.a, pair.b)}  # sums differ in their last digits
    highest = {name for name, mean in means.items() if mean == max(means.values())}
    different = {frozenset((pair.a, pair.b)) for pair in own if pair.verdict.word in ("better", "worse")}

    def place(arm: str) -> Place:
        if arm in highest:
            return "highest"
        return "lower" if any(frozenset((arm, best)) in different for best in highest) else "not told apart"

    return {name: place(name) for name in means}


def _cost(cells: Sequence[AnswerCell | None], unit: Unit) -> Interval | None:
    found = [cell.arm.summary.means[unit] for cell in cells if cell is not None]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    n = len(known)
    low, value, high = (math.fsum(ends) / n for ends in zip(*((each.low, each.value, each.high) for each in known), strict=True))
    return Interval(value, low, high, min(each.n for each in known))


def place_of(row: AnswerRow, number: int) -> Place | None:
    cell = row.cells[number]
    return None if cell is None else cell.place
