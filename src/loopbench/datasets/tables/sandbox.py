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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

MAX_STEPS = 1_000_000
"""Instructions of SQLite's virtual machine for one query: tens of milliseconds, ten times what an honest query needs here."""
MAX_ROWS = 50
MAX_BYTES = 6_000
"""Of one result's rows, as JSON."""
MAX_QUERY_CHARS = 4_000
MAX_VALUE_BYTES = 1_000
MAX_COPIES = 200
"""How many times the parts of a query may be copied into one another; see `_copies`."""

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
"""Deterministic ones whose work does not grow with the square of their arguments."""
_DEAR = frozenset({"like", "group_concat"})
"""Functions of which one step may be long: a query that uses one gets a tenth of the steps."""
_STEP = 1_000
"""Steps between two looks at the count."""

_READ_ONLY = "Only one SELECT statement is allowed: the databases are read only."


class QueryRefused(ValueError):
    """A query asks for something other than reading the tables."""


class QueryFailed(ValueError):
    """A query that SQLite does not take."""


class QueryTooCostly(ValueError):
    """A query that needs too much work."""


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
        self._connection.text_factory = _text
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._readable = {table.lower() for table in tables} | {"sqlite_master", "sqlite_schema"}
        self._defined: frozenset[str] = frozenset()
        """Names of the running query's WITH clauses."""
        self._refused = ""
        self._steps = self._steps_left = MAX_STEPS
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._progress, _STEP)

    def close(self) -> None:
        self._connection.close()

    def select(self, query: str, parameters: Sequence[Any] = ()) -> Selection:
        """Run one SELECT; `parameters` fill its question marks. Raises QueryRefused, QueryFailed or QueryTooCostly."""
        self._defined = _checked(query)
        self._refused = ""
        self._steps = self._steps_left = MAX_STEPS
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
                    self._steps = self._steps_left = MAX_STEPS // 10
                return sqlite3.SQLITE_OK
            self._refused = f"The function {name[:40]!r} is not available here; there are {', '.join(sorted(_FUNCTIONS))}."
        elif action == sqlite3.SQLITE_RECURSIVE:
            self._refused = "Recursive queries are not allowed."
        else:
            self._refused = _READ_ONLY
        return sqlite3.SQLITE_DENY

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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _capped(columns: list[str], found: Iterator[tuple[Any, ...]]) -> Selection:
    rows: list[list[Any]] = []
    size = len(json.dumps(columns))
    for row in found:
        plain = [_plain(value) for value in row]
        size += len(json.dumps(plain))
        if len(rows) == MAX_ROWS or size > MAX_BYTES:
            return Selection(columns, rows, False)
        rows.append(plain)
    return Selection(columns, rows, True)


def _plain(value: Any) -> Any:
    """A value as JSON has it. Floats to ten digits: how SQLite adds up differs from version to version in the last ones."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else str(value)
    return value


# Before SQLite sees it

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(
    r"""(?P<skip> \s+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<name> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | [A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]* )
      | (?P<named> [:@$][\w$]+ )
      | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)


def _checked(query: str) -> frozenset[str]:
    """Refuses what SQLite itself cannot be told to refuse; gives the names of the query's WITH clauses."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryRefused(f"The query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.")
    if "\0" in query or _SURROGATE.search(query):
        raise QueryRefused("The query holds characters that are no text.")
    tokens = [(match.lastgroup, match[0]) for match in _TOKEN.finditer(query) if match.lastgroup != "skip"]
    if not tokens or tokens[0][1].lower() not in ("select", "with", "values"):
        raise QueryRefused(_READ_ONLY)
    if any(group == "named" for group, _ in tokens):
        raise QueryRefused("Write ? for each parameter, and give their values in order.")
    names = [_name(text) if group == "name" else "" for group, text in tokens]
    texts = [text.lower() for _, text in tokens]
    defined = [name for place, name in enumerate(names) if name and _defines(texts, place)]
    uses = Counter(name for name, behind in zip(names, [*texts[1:], ""], strict=True) if name and behind != ".")
    if _copies(defined, uses) > MAX_COPIES:
        raise QueryTooCostly("The query uses its WITH clauses too often in one another.")
    return frozenset(defined)


def _copies(defined: Sequence[str], uses: Mapping[str, int]) -> int:
    """An upper bound on how many times a WITH clause is copied: each use of one is a copy of it and of all those in it.

    Twenty clauses that use the one before them twice make a million, before SQLite calls authorizer or progress handler at all.
    """
    return math.prod(max(1, uses[name] - 1) for name in defined)


def _name(text: str) -> str:
    quote = text[0]
    if quote in "'\"`":
        return text[1:-1].replace(quote * 2, quote).lower()
    return text[1:-1].lower() if quote == "[" else text.lower()


def _defines(texts: Sequence[str], place: int) -> bool:
    """Whether a WITH clause of the name at this place begins here: NAME [(columns)] AS [[NOT] MATERIALIZED] (."""
    at = place + 1
    if at < len(texts) and texts[at] == "(":
        while at < len(texts) and texts[at] != ")":
            at += 1
        at += 1
    if at >= len(texts) or texts[at] != "as":
        return False
    rest = [text for text in texts[at + 1 : at + 4] if text not in ("not", "materialized")]
    return bool(rest) and rest[0] == "("
