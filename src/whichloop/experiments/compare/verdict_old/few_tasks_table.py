"""What each loop did on each of a few tasks with repeats: a table of loops and tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.metrics.arm_info import NO_LIMITS, TrialLimits
from whichloop.metrics.pairs import MAX_FEW_TASKS, OnTask, Pair
from whichloop.metrics.within_tasks import WithinTasks
from whichloop.protocol.values import joined
from whichloop.text.numbers import listed_names, p_value

from .matrix import NOT_APPLICABLE, AnswerCell, AnswerMatrix, AnswerRow, cost_text, pairs_of, with_unit

MAX_APART = 2
"""Columns of the matrix whose counts stand one by one; of more they are added up."""


@dataclass(frozen=True, slots=True)
class FewTasksTable:
    """The loops of a matrix on a few tasks with repeats."""

    matrix: AnswerMatrix
    each: tuple[OnTask, ...]
    limits: TrialLimits

    @property
    def tasks(self) -> list[str]:
        """The tasks, in order."""
        return sorted({one.task for one in self.each})

    def of(self, row: AnswerRow, task: str | None = None) -> list[OnTask]:
        """Return what a loop did under each profile that applies to it, on one task or on all of them."""
        return [one for cell in row.cells for one in self._in(cell) if task is None or one.task == task]

    def _in(self, cell: AnswerCell | None) -> list[OnTask]:
        if cell is None or cell.place == NOT_APPLICABLE:
            return []
        return [one for one in self.each if one.arm == cell.arm.info.arm]

    def solved(self, row: AnswerRow, task: str | None = None) -> float:
        """Return the number of trials that a loop solved, or of graded scores their sum."""
        return math.fsum(one.solved for one in self.of(row, task))

    def trials(self, row: AnswerRow) -> int:
        """Return the number of a loop's scored trials."""
        return sum(one.trials for one in self.of(row))

    def trials_at_limit(self, on_tasks: Sequence[OnTask]) -> int:
        """Return how many trials ended at the run's own limit to each of them."""
        return sum(one.stops.get(stop, 0) for one in on_tasks for stop in self.limits.stops)

    # The table

    @property
    def is_shown(self) -> bool:
        """Whether there are tasks, and so few that each has a column."""
        return 0 < len(self.tasks) <= MAX_FEW_TASKS

    @property
    def caption(self) -> str:
        """What the cells count."""
        names = [self.matrix.heading(column) for column in self.matrix.columns]
        numbers = {one.trials for one in self.each}
        by_column = 1 if len(names) <= MAX_APART else len(names)
        beyond = "; over: beyond the limit" if any(self.trials_at_limit([one]) for one in self.each) else ""
        of = f" of {max(numbers) * by_column:,} trials" if len(numbers) == 1 else ""
        if len(names) > MAX_APART:
            return f"solved{of} of each task under all {len(names)} profiles; fewest: under one of them{beyond}"
        return f"solved{of} of each task{f' under {names[0]} / {names[1]}' if len(names) > 1 else ''}{beyond}"

    def cell(self, row: AnswerRow, task: str, *, has_limits: bool, has_costs: bool = False) -> str:
        """Return `100 / 98`, with the trials beyond the limit and the mean cost behind it: `83 / 74, 31 over, $0.00015`."""
        on_task = self.of(row, task)
        if not on_task:
            return "–"
        is_uneven = len({one.trials for one in self.each}) > 1
        counts = [f"{one.solved:,.4g}{f' of {one.trials:,}' if is_uneven else ''}" for one in on_task]
        solved = " / ".join(counts)
        if len(on_task) > MAX_APART:
            solved = f"{math.fsum(one.solved for one in on_task):,.4g}, fewest {min(one.solved for one in on_task):,.4g}"
        over, cost = self.trials_at_limit(on_task), self._cost(on_task)
        notes = [f"{over:,} over"] if has_limits and over else []
        if has_costs and cost is not None:
            notes.append(with_unit(cost_text(cost, self.matrix.unit), self.matrix.unit))
        return ", ".join([solved, *notes])

    def cost(self, row: AnswerRow, task: str) -> float | None:
        """Return a loop's mean cost of a trial of one task, in the unit of the matrix; None where it is not known."""
        return self._cost(self.of(row, task))

    def _cost(self, on_task: Sequence[OnTask]) -> float | None:
        """Return the mean cost of a trial, in the unit of the matrix; None where it is not known of each."""
        costs = [(one.tokens if self.matrix.unit == "tokens" else one.cost_usd, one.trials) for one in on_task]
        known_costs = [(cost, trials) for cost, trials in costs if cost is not None]
        if not known_costs or len(known_costs) < len(costs):
            return None
        return math.fsum(cost * trials for cost, trials in known_costs) / sum(trials for _, trials in known_costs)

    def to_json(self) -> Iterator[dict[str, Any]]:
        """Yield an object for each loop, column and task."""
        for row in self.matrix.rows if self.is_shown else ():
            for column, cell in zip(self.matrix.columns, row.cells, strict=True):
                for one in self._in(cell):
                    yield {
                        "task": one.task,
                        "loop": row.loop,
                        "column": self.matrix.heading(column),
                        "trials": one.trials,
                        "solved": one.solved,
                        "over_limit": self.trials_at_limit([one]) if self.limits.stops else None,
                        "cost": self._cost([one]),
                    }


NO_TASKS = FewTasksTable(AnswerMatrix((), (), "tokens", is_apart=False), (), NO_LIMITS)


TESTED = "exact test within tasks, "
"""What the first p of a sentence is of."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That each of some loops is shown ahead of each of some others, in each of some columns of the matrix."""

    ahead: tuple[str, ...]
    behind: tuple[str, ...]
    under: tuple[str, ...]
    """The columns' headings."""
    p: float
    """The largest adjusted p of all that is claimed."""

    def in_words(self, *, has_columns: bool, tested: str = "") -> str:
        """Return `finish is ahead of bare under flaky-tools (p = 0.044, adjusted)`."""
        number = len(self.ahead) * len(self.behind) * len(self.under)
        written = p_value(self.p)
        or_less = " or less" if number > 1 else ""
        p = f"p {written}" if written.startswith("<") else f"p = {written}{or_less}"
        under = f" under {listed_names(self.under)}" if has_columns else ""
        verb = "is" if len(self.ahead) == 1 else "are"
        return f"{listed_names(self.ahead)} {verb} ahead of {listed_names(self.behind)}{under} ({tested}{p}, adjusted)"


@dataclass(frozen=True, slots=True)
class FewTasksClaims:
    """What repeats show of the loops of a matrix on these tasks. `accuracy`: pairs of arms."""

    matrix: AnswerMatrix
    accuracy: tuple[Pair, ...]
    alpha: float

    def is_ahead(self, row: AnswerRow, other: AnswerRow) -> bool:
        """Whether a loop is shown to solve more of these tasks in some column, and less in none."""
        return bool(self._shown(row, other)) and not self._shown(other, row)

    def leaders(self, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops that are shown ahead of another one and behind none."""
        return [row for row in self.unbeaten(rows) if any(self.is_ahead(row, other) for other in rows)]

    def unbeaten(self, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops that no other one is ahead of."""
        return [row for row in rows if not any(self.is_ahead(other, row) for other in rows)]

    def claims(self, rows: Sequence[AnswerRow]) -> tuple[Claim, ...]:
        """Return whom the leaders are ahead of; of other loops only what says of a further loop that it is behind."""
        leaders = self.leaders(rows)
        named: set[str] = set()
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[str, float]]] = {}
        for row in [*leaders, *(row for row in rows if row not in leaders)]:
            by_columns: dict[tuple[str, ...], dict[str, float]] = {}
            for other in rows:
                shown_pairs = self._shown(row, other)
                if shown_pairs and (row in leaders or other.loop not in named):
                    columns = tuple(self.matrix.under(pair).removeprefix(" under ") for pair, _ in shown_pairs)
                    by_columns.setdefault(columns, {})[other.loop] = max(within.p for _, within in shown_pairs)
            for columns, behind in by_columns.items():
                groups.setdefault((columns, tuple(behind)), []).append((row.loop, max(behind.values())))
                named |= {*behind}
        return tuple(
            Claim(tuple(loop for loop, _ in ahead), behind, columns, max(p for _, p in ahead))
            for (columns, behind), ahead in groups.items()
        )

    def in_words(self, rows: Sequence[AnswerRow]) -> Iterator[str]:
        """Yield each claim in words, and then which loops no test tells from any other one."""
        has_columns = len(self.matrix.columns) > 1
        for number, claim in enumerate(self.claims(rows)):
            yield claim.in_words(has_columns=has_columns, tested="" if number else TESTED)
        apart = {row.loop for row in rows for other in rows if self._shown(row, other) or self._shown(other, row)}
        if alike := [row.loop for row in rows if row.loop not in apart]:
            yield f"{joined(alike)} {'is' if len(alike) == 1 else 'are'} told apart from none"

    def _shown(self, row: AnswerRow, other: AnswerRow) -> list[tuple[Pair, WithinTasks]]:
        """Return the columns' pairs in which a loop is shown to solve more of these tasks than another one."""
        return [
            (pair, pair.within)
            for pair in pairs_of(self.accuracy, row, other)
            if row is not other and pair.within is not None and pair.within.is_ahead(self.alpha)
        ]
