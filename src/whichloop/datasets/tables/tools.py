"""The tools over the databases of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.datasets.task import Toolset, look_up

from .databases import NAMES, DatabaseTable, database, image
from .sandbox import MAX_ROWS, QueryFailed, ReadOnlyDatabase, Selection

Scalar = str | int | float | None
MAX_VALUES = 20
REPORT_YEAR = "2021"


class UnknownDatabase(ValueError):
    """There is no such database."""


class UnknownTable(ValueError):
    """There is no such table, or column, in a database."""


class Connections:
    """A trial's own connections, opened when they are first needed."""

    def __init__(self) -> None:
        self._open: dict[str, ReadOnlyDatabase] = {}

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def select(self, name: str, query: str, parameters: list[Scalar]) -> Selection:
        if name not in self._open:
            _database(name)
            self._open[name] = ReadOnlyDatabase(image(name))
        return self._open[name].select(query, parameters)


def _database(name: str) -> Mapping[str, DatabaseTable]:
    if name not in NAMES:
        raise UnknownDatabase(f"There is no database {name[:40]!r}; there are {', '.join(NAMES)}.")
    return database(name)


def _table(name: str, table: str) -> DatabaseTable:
    held = _database(name)
    problem = f"The database {name} has no table {table[:40]!r}; there are {', '.join(held)}."
    return look_up(held, table, problem, UnknownTable)


def list_databases(desk: Connections) -> dict[str, Any]:
    """The names of all databases."""
    return {"databases": list(NAMES)}


def list_tables(desk: Connections, database: str) -> dict[str, Any]:
    """The names of a database's tables."""
    return {"tables": list(_database(database))}


def describe_table(desk: Connections, database: str, table: str) -> dict[str, Any]:
    """A table's columns with their types, and how many rows it has."""
    content = _table(database, table)
    return {"columns": content.columns, "rows": len(content.rows)}


def sample_rows(desk: Connections, database: str, table: str, limit: int = 3) -> dict[str, Any]:
    """The first rows of a table, 1 to 10 of them."""
    if not 1 <= limit <= 10:
        raise QueryFailed(f"limit is {limit}, and must lie between 1 and 10.")
    rows = _table(database, table).rows[:limit]
    return {"columns": list(rows[0]), "rows": [list(row.values()) for row in rows]}


def column_values(desk: Connections, database: str, table: str, column: str, starts_with: str = "") -> dict[str, Any]:
    """The different values of a column in order, 20 at most; `starts_with`: those whose text begins so."""
    rows = _table(database, table).rows
    if column not in rows[0]:
        raise UnknownTable(f"The table {table} has no column {column[:40]!r}; there are {', '.join(rows[0])}.")
    values = sorted({row[column] for row in rows if str(row[column]).startswith(starts_with)})
    return {"count": len(values), "values": values[:MAX_VALUES]}


def run_sql(desk: Connections, database: str, query: str, parameters: list[Scalar] | None = None) -> dict[str, Any]:
    """Run one SELECT statement (SQLite's dialect) on one database; `parameters` fill the question marks in it, in order.

    Dates are ISO text ('2022-05-17'): compare them as text, cut them with substr; there are no date functions. Gives columns and
    rows; at most 50 rows, and `truncated` says where there are more. Writing, recursion and very long work are refused.
    """
    selection = desk.select(database, query, parameters or [])
    shown = f"only the first {len(selection.rows)} rows are shown; a result holds at most {MAX_ROWS}, and fewer long ones"
    return {"columns": selection.columns, "rows": selection.rows} | ({} if selection.complete else {"truncated": shown})


def cached_report(desk: Connections, database: str, table: str) -> dict[str, Any]:
    """Totals of a table's number columns, as a report of the first year kept them. May be out of date."""
    rows = _table(database, table).rows
    old_rows = [row for row in rows if any(str(value).startswith(REPORT_YEAR) for value in row.values())]
    first = old_rows[0] if old_rows else {}
    numbers = [key for key, value in first.items() if isinstance(value, int) and not key.endswith("_id")]
    return {"rows": len(old_rows), "totals": {key: sum(row[key] for row in old_rows) for key in numbers}}


TOOLS: Toolset[Connections] = Toolset(
    list_databases, list_tables, describe_table, sample_rows, column_values, run_sql, cached_report, writes=()
)
DISTRACTORS = frozenset({"cached_report"})
