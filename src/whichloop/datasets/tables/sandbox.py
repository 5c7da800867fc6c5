"""SQL from a stranger: reading only, and only so much of it.

What SQLite advises for untrusted SQL (https://sqlite.org/security.html): an authorizer, low limits, a progress handler.
The work is counted in steps of SQLite's virtual machine and not in seconds: a query that is refused on a slow or busy machine is
refused on a fast one too, and a run says the same when it is done again.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .statement import Statement

MAX_STEPS = 1_000_000
"""Most instructions of SQLite's virtual machine for one query: tens of milliseconds, ten times what an honest query needs here."""
MAX_ROWS = 50
MAX_BYTES = 6_000
"""Largest size of one result's rows, as JSON."""
MAX_QUERY_CHARS = 4_000
MAX_VALUE_BYTES = 600
"""Largest size of one value, and of one row while SQLite works on it."""
MAX_WEIGHT = 50_000
"""Largest weight of a query, before it is run; see `Statement.weight`."""

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 60,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 12,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 50_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 24,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 64,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_FUNCTIONS = frozenset(
    {
        *("abs", "avg", "coalesce", "count", "group_concat", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif"),
        *("round", "sign", "substr", "substring", "sum", "total", "typeof", "upper"),
        *("dense_rank", "first_value", "lag", "last_value", "lead", "rank", "row_number"),
    }
)
"""Deterministic functions whose work does not grow with the square of their arguments."""
_DEAR = frozenset({"like", "group_concat"})
"""Functions of which one step may be long: a tenth of the steps, and a fiftieth where LIKE may meet long texts."""
_LONG = 100
"""Characters of a text that is long: each step takes time by the length of what it works on."""
_STEP = 1_000
"""Steps between two looks at the count."""

_READ_ONLY = "Only one SELECT statement is allowed: the databases are read only."


class QueryRefused(ValueError):
    """A query asks for something other than reading the tables."""


class QueryFailed(ValueError):
    """SQLite does not accept a query."""


class QueryTooCostly(ValueError):
    """A query needs too much work."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query gives, as JSON values."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    """False: there are more rows, beyond what one result may hold."""


class ReadOnlyDatabase:
    """A private copy of a database that can be read by any SQL and changed by none."""

    def __init__(self, image: bytes, tables: Sequence[str]) -> None:
        """`image`: as `sqlite3.Connection.serialize` gives it. `tables`: those that may be read."""
        self._connection = sqlite3.connect(  # no cache: a statement from there passes no authorizer
            ":memory:", check_same_thread=False, isolation_level=None, cached_statements=0
        )
        self._connection.deserialize(image)
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.text_factory = _decoded
        self._tables = frozenset(table.lower() for table in tables)
        self._columns = frozenset(column for table in tables for column in self._columns_of(table))
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._readable = self._tables | {"sqlite_master", "sqlite_schema"}
        self._defined: frozenset[str] = frozenset()
        """Names of the running query's WITH clauses."""
        self._refused = ""
        self._allow(set())
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._progress, _STEP)

    def close(self) -> None:
        self._connection.close()

    def select(self, query: str, parameters: Sequence[Any] = ()) -> Selection:
        """Run one SELECT; `parameters` fill its question marks. Raises QueryRefused, QueryFailed or QueryTooCostly."""
        examined = _examined(query, self._tables, self._columns)
        is_long = examined.is_long or any(isinstance(parameter, str) and len(parameter) > _LONG for parameter in parameters)
        self._defined, self._refused = examined.defined, ""
        self._allow({"long"} if is_long else set())
        try:
            with closing(self._connection.execute(query, tuple(parameters))) as cursor:
                return _capped([str(item[0]) for item in cursor.description], cursor)
        except MemoryError:  # how SQLite reports a program longer than its limit
            raise QueryTooCostly("The query is too complex; make it shorter.") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, ValueError) as error:
            raise self._explained(error) from None

    def _authorize(self, action: int, first: str | None, second: str | None, schema: str | None, inner: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            table = (first or "").lower()
            if table in self._readable or (table in self._defined and not second):  # no column: `count(*)` of a WITH clause
                return sqlite3.SQLITE_OK
            self._refused = f"The table {table[:40]!r} cannot be read here."
        elif action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            if name in _FUNCTIONS:
                if name in _DEAR:
                    self._allow(self._dear | {name})
                return sqlite3.SQLITE_OK
            self._refused = f"The function {name[:40]!r} is not available here; there are {', '.join(sorted(_FUNCTIONS))}."
        elif action == sqlite3.SQLITE_RECURSIVE:
            self._refused = "Recursive queries are not allowed."
        else:
            self._refused = _READ_ONLY
        return sqlite3.SQLITE_DENY

    def _columns_of(self, table: str) -> list[str]:
        with closing(self._connection.execute(f"SELECT * FROM {table} LIMIT 0")) as cursor:  # noqa: S608 - a table of our own
            return [item[0].lower() for item in cursor.description]

    def _allow(self, dear: set[str]) -> None:
        """`dear`: what makes the query's steps long."""
        self._dear = dear
        is_like, is_long = "like" in dear, bool(dear - {"like"})
        self._steps = self._steps_left = MAX_STEPS // (50 if is_like and is_long else 10 if dear else 1)

    def _progress(self) -> int:
        self._steps_left -= _STEP
        return int(self._steps_left < 0)

    def _explained(self, error: Exception) -> QueryRefused | QueryFailed | QueryTooCostly:
        if self._refused:
            return QueryRefused(self._refused)
        if self._steps_left < 0:
            return QueryTooCostly(f"The query was stopped after {self._steps} steps of the database engine; join and scan less.")
        text = str(error).rstrip(".").replace("\n", " ")[:200]
        return QueryFailed(f"The query does not work: {text.encode('utf-8', 'replace').decode()}.")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _capped(columns: list[str], all_rows: Iterator[tuple[Any, ...]]) -> Selection:
    rows: list[list[Any]] = []
    size = len(json.dumps(columns))
    for row in all_rows:
        plain = [_json_cell(value) for value in row]
        size += len(json.dumps(plain))
        if len(rows) == MAX_ROWS or size > MAX_BYTES:
            return Selection(columns, rows, False)
        rows.append(plain)
    return Selection(columns, rows, True)


def _json_cell(value: Any) -> Any:
    """Return a value as JSON, floats to ten digits: how SQLite adds up differs from version to version in the last ones."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else str(value)
    return value


# Before SQLite sees it

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a query before it runs."""

    defined: frozenset[str]
    """Names of its WITH clauses."""
    is_long: bool
    """Whether texts in it may be long."""


@lru_cache(maxsize=256)  # plans ask the same over and over, with other parameters
def _examined(query: str, tables: frozenset[str], columns: frozenset[str]) -> _Known:
    """Refuse what SQLite itself cannot be told to refuse."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryRefused(f"The query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.")
    if "\0" in query or _SURROGATE.search(query):
        raise QueryRefused("The query holds characters that are no text.")
    statement = Statement.of(query)
    if statement.first not in ("select", "with", "values"):
        raise QueryRefused(_READ_ONLY)
    if statement.has_named_parameters:
        raise QueryRefused("Write ? for each parameter, and give their values in order.")
    if statement.weight(tables, columns) > MAX_WEIGHT:
        raise QueryTooCostly("The query uses names that it gives itself too often in one another; nest and repeat less.")
    return _Known(statement.defined, statement.may_be_long(_LONG))
