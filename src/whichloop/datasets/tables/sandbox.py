"""SQL from a stranger: reading only, and only so much of it.

What SQLite advises for untrusted SQL (https://sqlite.org/security.html): an authorizer, low limits, a progress handler.
The work is counted in steps of SQLite's virtual machine and not in seconds: a query that is refused on a slow or busy machine is
refused on a fast one too, and a run says the same when it is done again.

SQLite puts a copy of an expression, or of a whole SELECT, wherever its name is used: a query of 800 characters in which each of
24 clauses uses the one before it twice takes seconds and gigabytes before authorizer or progress handler is asked at all. So what a
query is made of is told before, as far as it can be.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

RESERVED = frozenset({
    "all", "and", "as", "between", "case", "collate", "distinct", "else", "escape", "except", "exists", "from", "group",
    "having", "in", "intersect", "is", "isnull", "join", "limit", "not", "notnull", "null", "on", "or", "order", "select",
    "then", "union", "using", "values", "when", "where",
})  # fmt: skip
"""Words of a SELECT that cannot be names."""
_WORDS = frozenset({
    "asc", "by", "cast", "cross", "current", "desc", "end", "exclude", "filter", "first", "following", "full", "glob",
    "groups", "inner", "last", "left", "like", "match", "materialized", "natural", "no", "nulls", "offset", "others", "outer",
    "over", "partition", "preceding", "range", "recursive", "regexp", "right", "row", "rows", "ties", "unbounded", "window",
    "with",
})  # fmt: skip
"""Words of a SELECT that can be names too: they are where an operand may begin."""
_COMPOUNDS = frozenset({"union", "intersect", "except"})
_OPERAND_WORDS = frozenset({"end", "isnull", "notnull", "null"})
"""Words after which an operand is complete."""

_ENOUGH = 30
"""So many things, each used three times, are more copies than any limit allows."""
_IDENTIFIER = re.compile(r"[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*")
"""Other names may come about by themselves: a column without a name is called by its text."""
_TOKEN = re.compile(
    r"""(?P<skip> [ \t\n\f\r\ufeff]+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
      | (?P<name> [A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]* )
      | (?P<number> [0-9][0-9A-Za-z_.]* )
      | (?P<named> [:@$][\w$]+ )
      | (?P<other> \|\| | . )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    text: str = ""
    """The text in lower case; a name without its quotes."""
    is_name: bool = False
    quote: str = ""

    @property
    def word(self) -> str:
        """The text, empty for one that is quoted."""
        return "" if self.quote else self.text

    @property
    def ends_operand(self) -> bool:
        if self.quote or self.text in _OPERAND_WORDS:
            return True
        return self.text not in RESERVED if self.is_name else self.text[:1] in (")", "?") or self.text[:1].isdigit()


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of a query that count."""

    tokens: Sequence[_Token]
    has_named_parameters: bool
    defined: frozenset[str]
    """Names of the WITH clauses."""

    @classmethod
    def of(cls, query: str) -> Statement:
        matches = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(query) if match.lastgroup != "skip"]
        tokens = [_token(group, text) for group, text in matches]
        clauses = [token.text for place, token in enumerate(tokens) if token.is_name and _clause_end(tokens, place)]
        return cls(tokens, any(group == "named" for group, _ in matches), frozenset(clauses))

    def weight(self, tables: Set[str], columns: Set[str]) -> float:
        """Return an upper bound on the tokens there are when each use of what the query names itself has become a copy of that.

        `tables`, `columns`: what the database holds. Their copies have no parts of their own, unless the query gives them anew.
        """
        given, uses = self._names()
        has_compounds = any(token.text in _COMPOUNDS for token in self.tokens)  # whose columns have the names of the first part's
        selects = sum(token.text in ("select", "values") for token in self.tokens)
        weight = float(len(self.tokens))
        plain = (tables if has_compounds else tables | columns) - given.keys()
        for name in [name for name in uses if name not in plain]:
            is_sure = _IDENTIFIER.fullmatch(name) and name not in _WORDS and not has_compounds
            things = given[name] if is_sure else selects  # that share the name, at most, and all its uses: the largest product
            shares = range(1, min(max(1, things), uses[name], _ENOUGH) + 1)
            weight *= max([1.0, *((uses[name] / share) ** share for share in shares)])
        return weight

    def _names(self) -> tuple[Counter[str], Counter[str]]:
        """Count how often the query gives each name to something, after AS, behind an operand or in a WITH clause, and uses it."""
        given, uses, surely_given = Counter[str](), Counter[str](), set[str]()
        is_keyword = False  # whether a word that may be a name stands where none can
        for place, token in enumerate(self.tokens):
            before = self.tokens[place - 1] if place else _Token()
            behind = self.tokens[place + 1].word if place + 1 < len(self.tokens) else ""
            was_keyword, is_keyword = is_keyword, before.word in ("group", "order") or before.ends_operand
            end = _clause_end(self.tokens, place)
            if token.is_name:
                is_before_word = before.word in _WORDS and before.word not in _OPERAND_WORDS and was_keyword
                given[token.text] += bool(end or before.word == "as" or (before.ends_operand and not is_before_word))
                given.update(inner.text for inner in self.tokens[place + 1 : end] if inner.is_name)
            if token.text == "*":
                is_use = before.word in ("select", "distinct", "all", ",", ".")
            elif not token.is_name or behind == "." or (behind == "(" and not end):
                is_use = False
            elif token.word in _WORDS:
                is_use = place > 0 and not is_keyword
            else:
                is_use = bool(token.quote) or token.text not in RESERVED
            uses[token.text] += is_use
            if is_use and token.is_name and token.text not in _WORDS and token.quote in ("", "'"):
                surely_given.add(token.text)  # one of its uses is the definition: other names come about in other ways
        uses.subtract(surely_given)
        return +given, uses


def _token(group: str, text: str) -> _Token:
    if group != "quoted":
        return _Token(text.lower(), group == "name")
    inner = text[1:-1]
    return _Token((inner if text[0] == "[" else inner.replace(text[0] * 2, text[0])).lower(), True, text[0])


def _clause_end(tokens: Sequence[_Token], place: int) -> int:
    """Return the place of AS if a WITH clause begins here, else 0: NAME [(columns)] AS [[NOT] MATERIALIZED] (."""
    at = place + 1
    if at < len(tokens) and tokens[at].text == "(":
        at += 1
        while at < len(tokens) and tokens[at].text not in ("(", ")"):
            at += 1
        at += 1
    if at >= len(tokens) or tokens[at].text != "as":
        return 0
    behind = [token.text for token in tokens[at + 1 : at + 4] if token.text not in ("not", "materialized")]
    return at if behind and behind[0] == "(" else 0


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
_FUNCTIONS = frozenset({
    "abs", "avg", "coalesce", "count", "group_concat", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif", "round",
    "sign", "substr", "substring", "sum", "total", "typeof", "upper",
    "dense_rank", "first_value", "lag", "last_value", "lead", "rank", "row_number",
})  # fmt: skip
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

    def __init__(self, image: bytes) -> None:
        """`image`: as `sqlite3.Connection.serialize` gives it."""
        self._connection = sqlite3.connect(  # no cache: a statement from there passes no authorizer
            ":memory:", check_same_thread=False, isolation_level=None, cached_statements=0
        )
        self._connection.deserialize(image)
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = self._connection.execute("SELECT lower(t.name), lower(c.name) FROM sqlite_schema t, pragma_table_info(t.name) c")
        self._tables, self._columns = map(frozenset, zip(*names.fetchall(), strict=True))
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
        statement = _examined(query, self._tables, self._columns)
        texts = [token.text for token in statement.tokens] + [value for value in parameters if isinstance(value, str)]
        is_long = any(text == "||" or len(text) > _LONG for text in texts)  # it joins texts, or has a long one
        self._defined, self._refused = statement.defined, ""
        self._allow({"long"} if is_long else set())
        try:
            with closing(self._connection.execute(query, tuple(parameters))) as cursor:
                return _capped([str(item[0]) for item in cursor.description], cursor)
        except MemoryError:  # how SQLite reports a program longer than its limit
            raise QueryTooCostly("The query is too complex; make it shorter.") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, ValueError) as error:
            if self._refused:
                raise QueryRefused(self._refused) from None
            if self._steps_left < 0:
                told = f"The query was stopped after {self._steps} steps of the database engine; join and scan less."
                raise QueryTooCostly(told) from None
            text = str(error).rstrip(".").replace("\n", " ")[:200]
            raise QueryFailed(f"The query does not work: {text.encode('utf-8', 'replace').decode()}.") from None

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

    def _allow(self, dear: set[str]) -> None:
        """`dear`: what makes the query's steps long."""
        self._dear = dear
        is_like, is_long = "like" in dear, bool(dear - {"like"})
        self._steps = self._steps_left = MAX_STEPS // (50 if is_like and is_long else 10 if dear else 1)

    def _progress(self) -> int:
        self._steps_left -= _STEP
        return int(self._steps_left < 0)


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


@lru_cache(maxsize=256)  # plans ask the same over and over, with other parameters
def _examined(query: str, tables: frozenset[str], columns: frozenset[str]) -> Statement:
    """Refuse what SQLite itself cannot be told to refuse."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryRefused(f"The query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.")
    if "\0" in query or _SURROGATE.search(query):
        raise QueryRefused("The query holds characters that are no text.")
    statement = Statement.of(query)
    if not statement.tokens or statement.tokens[0].text not in ("select", "with", "values"):
        raise QueryRefused(_READ_ONLY)
    if statement.has_named_parameters:
        raise QueryRefused("Write ? for each parameter, and give their values in order.")
    if statement.weight(tables, columns) > MAX_WEIGHT:
        raise QueryTooCostly("The query uses names that it gives itself too often in one another; nest and repeat less.")
    return statement
