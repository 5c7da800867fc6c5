"""The tables: SQL from anyone reads, and only so much; plans over the databases give what Python works out from the rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import tables
from whichloop.datasets.tables import tools
from whichloop.datasets.tables.databases import NAMES, database, image
from whichloop.datasets.tables.sandbox import (
    MAX_BYTES,
    MAX_ROWS,
    RESERVED,
    QueryFailed,
    QueryRefused,
    QueryTooCostly,
    ReadOnlyDatabase,
    Selection,
    Statement,
)
from whichloop.datasets.tables.tools import Connections
from whichloop.protocol.json_text import digest

ERRORS = (QueryRefused, QueryFailed, QueryTooCostly)
LONG = "a" * 900
DOUBLING = "WITH a0 AS (SELECT 1)" + "".join(f", a{i} AS (SELECT 1 FROM a{i - 1}, a{i - 1} b)" for i in range(1, 40)) + " SELECT 1"
"""A text of 2 KB that SQLite would unfold to 2**39 parts before it asks anyone."""
TWENTYFOLD = (
    f'WITH "a" AS (SELECT 1), [b] (x) AS NOT MATERIALIZED (SELECT 1 FROM {", ".join(["A x"] * 20)}),'
    f" `c` AS (SELECT 1 FROM {', '.join(['b'] * 20)}) SELECT * FROM c"
)


def chain(level: str) -> str:
    """30 WITH clauses, each over the one before, `LAST`: a text of 1 KB that SQLite would unfold for hours, and ask nobody."""
    clauses = [f"a{at} AS ({level.replace('LAST', f'a{at - 1}')})" for at in range(1, 30)]
    return f"WITH a0 AS (SELECT kwh x, kwh row FROM readings), {', '.join(clauses)} SELECT 1 FROM a29"


UNFOLDING = (
    chain("SELECT x+x AS x FROM LAST"),
    chain('SELECT [x]+"X" x /* twice */ FROM `LAST`'),
    chain("SELECT row+row row FROM LAST"),
    chain("SELECT x+x kwh FROM (SELECT kwh+kwh x FROM LAST)"),
    chain('SELECT x+"x:1"+"x:2" x FROM (SELECT *, *, * FROM LAST)'),
    chain("SELECT x FROM LAST WHERE EXISTS (SELECT x FROM LAST)"),
    "WITH a0(kwh) AS (SELECT kwh FROM readings)"
    + "".join(f", a{at}(kwh) AS (SELECT kwh+kwh FROM a{at - 1})" for at in range(1, 26))
    + " SELECT kwh FROM a25",
    "WITH \xa0 AS (SELECT 1)"
    + "".join(f", {chr(160) * (at + 1)} AS (SELECT 1 FROM {chr(160) * at}, {chr(160) * at} b)" for at in range(1, 30))
    + f" SELECT 1 FROM {chr(160) * 30}",
    "SELECT " + "(SELECT " * 7 + "1" + " x WHERE x+x+x+x)" * 7,
)


@pytest.fixture(scope="module")
def energy() -> Iterator[ReadOnlyDatabase]:
    opened = ReadOnlyDatabase(image("energy"))
    yield opened
    opened.close()


def unchanged(opened: ReadOnlyDatabase) -> bool:
    """Whether the private copy still holds what it was made from, and nothing else."""
    return opened._connection.serialize() == image("energy")


def outcome(opened: ReadOnlyDatabase, query: str, parameters: list[Any] | None = None) -> Selection | str:
    """What comes of a query, after the promises that hold for all: few rows and bytes, errors of one line."""
    found, told = None, ""
    try:
        found = opened.select(query, parameters or [])
    except ERRORS as error:
        told = f"{type(error).__name__}: {error}"
    if found is None:
        assert told.endswith(".")
        assert "\n" not in told
        assert len(told) < 500
        return told
    assert len(found.rows) <= MAX_ROWS
    assert len(json.dumps(found.rows)) <= MAX_BYTES
    return found


_WORDS = (
    *("SELECT", "*", "1", "x", "FROM", "meters", "readings", "tariffs", "WHERE", "kwh", "month", "town", ",", "(", ")", "=", "<"),
    *("JOIN", "ON", "UNION ALL", "UNION", "ORDER BY", "GROUP BY", "LIMIT", "WITH", "RECURSIVE", "AS", "a", "COUNT(*)", "SUM(kwh)"),
    *("'%a%'", "LIKE", "||", "OVER ()", "VALUES", "IN", "EXISTS", "x'00'", "NULL", "9e999", "?", ":a", '"', "'", "[", "`", "é"),
    *("INSERT INTO", "UPDATE", "DELETE FROM", "DROP TABLE", "CREATE TABLE", "TEMP", "PRAGMA", "ATTACH", "VACUUM", "EXPLAIN"),
    *("zeroblob(99999999)", "printf('%99999999d', 1)", "load_extension('x')", "randomblob(9)", "pragma_table_info('meters')"),
    *("sqlite_master", "json_each('[1]')", "hex", ";", "--", "/*", "\0", "\ud800"),
)


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join) | st.text(max_size=60))
def test_any_text_reads_or_is_refused(energy: ReadOnlyDatabase, text: str) -> None:
    for query in (text, f"SELECT {text}", f"WITH a AS (SELECT * FROM meters) SELECT {text}"):
        first = outcome(energy, query)
        assert outcome(energy, query) == first
    assert unchanged(energy)


@pytest.mark.parametrize(
    ("error", "query"),
    [
        ("QueryRefused", "INSERT INTO meters VALUES (999, 'M-1', 'Arvik', 1)"),
        ("QueryRefused", "WITH x AS (SELECT 1) DELETE FROM meters"),
        ("QueryRefused", "UPDATE readings SET kwh = 0"),
        ("QueryRefused", "DROP TABLE readings"),
        ("QueryRefused", "ATTACH 'other.db' AS other"),
        ("QueryRefused", "PRAGMA writable_schema = ON"),
        ("QueryRefused", "VACUUM INTO 'copy.db'"),
        ("QueryRefused", "EXPLAIN SELECT 1"),
        ("QueryRefused", "SELECT load_extension('evil.so')"),
        ("QueryRefused", "SELECT zeroblob(1000000000)"),
        ("QueryRefused", "SELECT printf('%1000000000d', 1)"),
        ("QueryRefused", "SELECT replace(replace(month, '2', 'aaaa'), 'a', 'bbbb') FROM readings"),
        ("QueryRefused", "SELECT CURRENT_TIMESTAMP"),
        ("QueryRefused", "SELECT * FROM pragma_table_info('meters')"),
        ("QueryRefused", "SELECT * FROM json_each('[1, 2]')"),
        ("QueryRefused", "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"),
        ("QueryRefused", "WITH n(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM n) SELECT count(*) FROM n"),
        ("QueryRefused", "SELECT '" + "a" * 4_000 + "'"),
        ("QueryFailed", "SELECT 1; DROP TABLE meters"),
        ("QueryFailed", "SELECT *, *, *, *, *, *, *, *, *, *, *, *, *, *, *, *, *, * FROM readings"),
        ("QueryFailed", f"SELECT '{LONG}' || '{LONG}'"),
        ("QueryFailed", "SELECT group_concat(month || month) FROM readings"),
        ("QueryFailed", "SELECT " + "(" * 300 + "1" + ")" * 300),
        ("QueryFailed", "SELECT 1" + " UNION SELECT 1" * 40),
        ("QueryTooCostly", "SELECT count(*) FROM readings a, readings b, readings c"),
        ("QueryTooCostly", "SELECT DISTINCT a.kwh || '-' || b.reading_id || b.month FROM readings a, readings b ORDER BY 1"),
        ("QueryTooCostly", f"SELECT count(*) FROM readings a, readings b WHERE '{LONG[:500]}' || a.kwh || b.kwh LIKE '%aaaaaab'"),
        ("QueryTooCostly", DOUBLING),
        ("QueryTooCostly", TWENTYFOLD),
    ],
)  # fmt: skip
def test_what_is_not_reading_or_too_much_is_refused(energy: ReadOnlyDatabase, error: str, query: str) -> None:
    told = outcome(energy, query)
    assert isinstance(told, str)
    assert told.startswith(error), told
    assert outcome(energy, query) == told
    assert unchanged(energy)


@pytest.mark.parametrize("query", UNFOLDING)
def test_what_would_unfold_without_end_never_reaches_sqlite(energy: ReadOnlyDatabase, query: str) -> None:
    assert len(query) < 2_500
    assert "names that it gives itself too often" in str(outcome(energy, query))


def test_reserved_words_are_no_names() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for word in RESERVED:
            with pytest.raises(sqlite3.OperationalError):
                connection.execute(f"WITH {word} AS (SELECT 1 AS x) SELECT x FROM {word}")


names = st.sampled_from(["x", '"x"', "row", "desc", "kwh", "town", "[a b]", "'s'"])


@settings(max_examples=cases(30), deadline=None)
@given(st.lists(st.tuples(names, names, st.integers(1, 3), st.booleans(), st.booleans()), max_size=5))
def test_a_query_unfolds_to_no_more_than_its_weight(levels: list[tuple[str, str, int, bool, bool]]) -> None:
    clauses, columns = ["SELECT kwh, kwh AS x FROM readings"], ["kwh", "x"]
    for place, (one, other, uses, is_marked, is_starred) in enumerate(levels):
        source = f"SELECT *, * FROM a{place}" if is_starred else f"SELECT * FROM a{place}"
        told = [" + ".join([columns[-1], *[columns[0]] * uses]), " + ".join([columns[0], *[columns[-1]] * uses])]
        marked = " AS " if is_marked else " "
        clauses.append(f"SELECT {told[0]}{marked}{one}, {told[1]}{marked}{other} FROM ({source})")
        columns = [one.replace("'", '"'), other.replace("'", '"')]
    query = f"WITH {', '.join(f'a{place} AS ({clause})' for place, clause in enumerate(clauses))} SELECT * FROM a{len(levels)}"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE readings (kwh INTEGER, town TEXT)")
        program = len(connection.execute(f"EXPLAIN {query}").fetchall())
    assert program < 20 + 2 * Statement.of(query).weight({"readings"}, {"kwh", "town"})


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT count(*) FROM readings", [[2880]]),
        ("  -- how many\n select COUNT(*) from meters", [[80]]),
        ("WITH m AS (SELECT * FROM meters), t AS (SELECT town FROM m GROUP BY town) SELECT count(*) FROM t, m", [[960]]),
        ("SELECT name FROM sqlite_master ORDER BY name", [["meters"], ["readings"], ["tariffs"]]),
        ("SELECT 9e999, -9e999, x'0102', CAST(x'ff' AS TEXT)", [["inf", "-inf", "<2 bytes>", "\ufffd"]]),
        (
            "WITH t AS (SELECT m.town AS town, SUM(r.kwh) AS kwh FROM readings r JOIN meters m ON m.meter_id = r.meter_id"
            " WHERE r.month BETWEEN '2021-01' AND '2022-06' GROUP BY m.town), top AS (SELECT town, kwh, RANK() OVER (ORDER BY kwh"
            " DESC) AS place FROM t WHERE kwh > (SELECT AVG(kwh) FROM t)), low AS (SELECT town, kwh FROM t WHERE kwh < (SELECT"
            " AVG(kwh) FROM t)) SELECT (SELECT COUNT(*) FROM top) + (SELECT COUNT(*) FROM low) - (SELECT COUNT(*) FROM t)",
            [[0]],
        ),
        (
            "SELECT 'a' AS kind, COUNT(*) AS n FROM meters WHERE town = 'Arvik' UNION ALL SELECT 'b', COUNT(*) FROM meters WHERE"
            " town <> 'Arvik' UNION ALL SELECT 'c', COUNT(*) FROM meters WHERE town = town ORDER BY kind DESC, n LIMIT 1",
            [["c", 80]],
        ),
    ],
)
def test_honest_queries_work(energy: ReadOnlyDatabase, query: str, rows: list[list[Any]]) -> None:
    assert energy.select(query).rows == rows


@settings(max_examples=cases(12), deadline=None)
@given(st.integers(0, 120), st.sampled_from(["town", "serial || '" + "x" * 400 + "'"]))
def test_a_result_says_whether_it_is_complete(energy: ReadOnlyDatabase, rows: int, column: str) -> None:
    found = outcome(energy, f"SELECT {column} FROM meters LIMIT {rows}")
    assert isinstance(found, Selection)
    assert found.complete == (len(found.rows) == min(rows, 80))
    told = tools.run_sql(Connections(), "energy", f"SELECT town FROM meters LIMIT {rows}")
    assert ("truncated" in told) == (rows > MAX_ROWS)


def test_the_digest_that_the_suite_states_is_that_of_the_databases() -> None:
    of = [[n, [[t, columns, [[*row.values()] for row in rows]] for t, (columns, rows) in database(n).items()]] for n in NAMES]
    assert digest(of) == tables.DATA_DIGEST == tables.load().shared
