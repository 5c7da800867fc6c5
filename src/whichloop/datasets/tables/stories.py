"""What the templates are told with: looks at the schema, queries, periods of time, and the draw that begins anew at a dead end."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, part, told_by
from whichloop.protocol import Ref

from .databases import YEARS, Row

ANSWER_FORMAT = (
    "Answer with the number or the name alone, or with the names separated by commas."
    ' If it cannot be determined, the right answer is "not determined".'
)
MIN_NUMBER = 20
"""Smaller numbers are not asked for: a guess might hit them."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip

Item = TypeVar("Item")


class Story:
    """A task being told: the draw, and the plan so far."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.plan = PlanWriter()
        self._results_so_far: list[Ref] = []

    def look_at(self, database: str, *tables: str) -> None:
        """Plan a look at tables, which all queries from here on come after."""
        for table in tables:
            goal = f"See which columns {table} in {database} has."
            self._results_so_far.append(self.plan.call(goal, "describe_table", {"database": database, "table": table}))

    def call(self, goal: str, tool: str, **arguments: Any) -> None:
        """Plan another look at what is there, after those before."""
        self._results_so_far.append(self.plan.call(goal, tool, arguments, after=self._results_so_far))

    def ask(self, goal: str, database: str, query: str, *parameters: Any) -> Ref:
        """Plan a query, and return its result."""
        arguments = {"database": database, "query": query} | ({"parameters": list(parameters)} if parameters else {})
        return self.plan.call(goal, "run_sql", arguments, after=self._results_so_far)

    def failing(self, goal: str, database: str, query: str) -> None:
        """Plan a query that does not work."""
        self._results_so_far.append(self.plan.call(goal, "run_sql", {"database": database, "query": query}, fails=True))

    def period(self) -> tuple[str, str, str]:
        """Draw about half a year: the first day, the last one, and the period in words."""
        first = datetime.date(YEARS[0], 1, 1) + datetime.timedelta(self.draw.integer(0, 364 * len(YEARS) - 220))
        last = first + datetime.timedelta(self.draw.integer(100, 220))
        return first.isoformat(), last.isoformat(), f"from {_day(first)} to {_day(last)}"

    def months(self) -> tuple[str, str, str]:
        """Draw three to twelve months: the first, the last, and the period in words."""
        start, size = self.draw.integer(0, 12 * len(YEARS) - 12), self.draw.integer(2, 11)
        first, last = (f"{YEARS[0] + month // 12}-{month % 12 + 1:02d}" for month in (start, start + size))
        return first, last, f"from {named_month(first)} to {named_month(last)}"

    def task(self, instance: str, question: str, answer: Any, expected: Any, scorer: str = "numeric") -> Draft:
        """`instance`: database and entity. Raises DeadEnd for an answer that stands in the question, or that a guess may hit."""
        items = expected if isinstance(expected, list) else [expected]
        if any(isinstance(item, int) and item < MIN_NUMBER for item in items) or any(str(item) in question for item in items):
            raise DeadEnd
        return Draft(f"{question} {ANSWER_FORMAT}", self.plan.plan(answer), expected, scorer, instance=instance)


template = told_by(Story)


def cell(result: Ref, column: int = 0, row: int = 0) -> Ref:
    """Return a value of a query's result."""
    return part(result, "rows", row, column)


def first_column(result: Ref, expected: Sequence[str]) -> list[Ref]:
    """Return the first column of a result. Raises DeadEnd unless it has two to five rows."""
    if not 2 <= len(expected) <= 5:
        raise DeadEnd
    return [cell(result, row=row) for row in range(len(expected))]


def named_month(month: str) -> str:
    """Return `2022-03` in words."""
    return f"{_MONTHS[int(month[5:]) - 1]} {month[:4]}"


def _day(day: datetime.date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def top(rows: Iterable[Item], size: Callable[[Item], Any]) -> Item:
    """Return the item of the largest size. Raises DeadEnd if there is no such item, or more than one."""
    ranked = sorted(rows, key=size, reverse=True)
    if not ranked or (len(ranked) > 1 and size(ranked[0]) == size(ranked[1])):
        raise DeadEnd
    return ranked[0]


def earliest(rows: Iterable[Row], column: str) -> Row:
    """Return the row of the earliest date. Raises DeadEnd if there is no such row, or more than one."""
    ranked = sorted(rows, key=lambda row: str(row[column]))
    if not ranked or (len(ranked) > 1 and ranked[0][column] == ranked[1][column]):
        raise DeadEnd
    return ranked[0]


def between(rows: Iterable[Row], column: str, first: str, last: str) -> list[Row]:
    """Return the rows with a date, or a month, from first to last."""
    return [row for row in rows if first <= row[column] <= last]


def total(rows: Iterable[Row], column: str) -> int:
    """Return the sum of a column. Raises DeadEnd if it is 0: without rows, SQL's sum is NULL."""
    amount: int = sum(row[column] for row in rows)
    if not amount:
        raise DeadEnd
    return amount


def numbers(rows: Iterable[Row], column: str) -> set[Any]:
    """Return the values of a column."""
    return {row[column] for row in rows}
