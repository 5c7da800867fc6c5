"""Importers of the user's own tasks: one table in every format, whole tasks, what cells mean."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import jsonl, parquet
from whichloop.datasets.csv import load as load_csv
from whichloop.datasets.importing.columns import read_value
from whichloop.datasets.importing.own_tools import OwnTools, own_tools
from whichloop.datasets.importing.rows import suite_from_frame
from whichloop.datasets.task import Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite


def price(item: str) -> float:
    """Price of an item."""
    return 2.0


def stock(item: str) -> int:
    """How many there are."""
    return 3


TOOLS = own_tools("shop", [price, stock])


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(str.strip)
ANSWER = TEXT | st.integers(-(10**14), 10**14) | st.floats(-1e9, 1e9) | st.lists(st.integers(0, 9), min_size=1, max_size=3)
ROW = st.fixed_dictionaries({"question": TEXT, "answer": ANSWER, "context": st.none() | TEXT, "topic": st.sampled_from("abc")})
FORMATS = ("csv", "jsonl", "parquet", "frame", "dicts")
KEY = TEXT.filter(lambda key: key[0] != "$")
ID = st.from_regex(r"[a-z0-9 /_.-]{1,12}", fullmatch=True).filter(str.strip)


def written(table: list[dict[str, Any]], form: str, folder: Path) -> Suite:
    """The table in a format, read back. Typed columns hold one type, so lists and mixed answers go into CSV and JSON lines only."""
    path = folder / f"t.{form}"
    columns = list(table[0])
    if form == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, columns)
            out.writeheader()
            out.writerows({name: _cell(value) for name, value in row.items()} for row in table)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    elif form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), path, row_group_size=3)
    else:
        return suite_from_frame(pandas.DataFrame(table) if form == "frame" else table, name="t", labels=["topic"])
    return make_suite(parse_spec(f"{form}(labels=topic)"), path)


def _cell(value: Any) -> Any:
    return "" if value is None else json.dumps(value) if isinstance(value, list | float) else value


@settings(max_examples=cases(16), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.lists(ROW, min_size=1, max_size=8), typed=st.booleans(), number=st.integers(-(10**9), 10**9))
def test_the_same_table_gives_the_same_tasks_in_every_format(tmp_path, table, typed, number):
    for row in table:
        if typed:
            row["answer"] = number
        elif isinstance(row["answer"], str) and not isinstance(read_value(row["answer"]), str):
            row["answer"] = read_value(row["answer"])  # a CSV cell cannot say that 42 is meant as text
    made = [written(table, form, tmp_path) for form in (FORMATS if typed else ("csv", "jsonl", "dicts"))]
    for suite in made[1:]:
        assert list(suite.tasks) == list(made[0].tasks)
        assert (suite.digest, suite.version) == (made[0].digest, made[0].version)
    for row, task in zip(table, made[0].tasks, strict=True):
        assert (task.query.text, task.query.context) == (row["question"], row["context"] or "")
        assert canonical_json(task.expected) == canonical_json(row["answer"])
        assert task.labels == {"topic": row["topic"]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(KEY, JSON, max_size=2)
ARGUMENTS = st.dictionaries(
    KEY, JSON | st.builds(Ref, st.just("c1"), st.lists(KEY | st.integers(), max_size=2).map(tuple)), max_size=2
)
FIRST = st.builds(PlannedCall, st.just("c1"), st.just("price"), OBJECT, st.just("Look it up."))
SECOND = st.builds(
    PlannedCall, st.just("c2"), st.just("stock"), ARGUMENTS, TEXT, fails=st.booleans(), after=st.sampled_from([(), ("c1",)])
)
TASK = st.builds(
    Task,
    id=ID,
    query=st.builds(Query, TEXT, st.just("") | TEXT, st.none() | st.just({"type": "object"})),
    expected=JSON,
    scorer=st.sampled_from(["exact", "numeric(tolerance=0.01)", "own.module:score"]),
    plan=st.none() | st.builds(Plan, st.tuples(FIRST) | st.tuples(FIRST, SECOND), JSON),
    no_plan=st.just("why"),
    quarantined=st.just("") | TEXT,
    labels=OBJECT,
    world=OBJECT,
)


def written_whole(tasks: list[Task], folder: Path, tools: OwnTools = TOOLS, **options: Any) -> Suite:
    path = folder / "whole.jsonl"
    path.write_text("".join(json.dumps(task.as_dict()) + "\n" for task in tasks))
    return jsonl.load(path, tools, **options)


@settings(max_examples=cases(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=st.lists(TASK, min_size=1, max_size=3, unique_by=lambda task: task.id))
def test_whole_tasks_come_back_as_they_were_written(tmp_path, tasks):
    suite = written_whole(tasks, tmp_path, scorer="own.module:score")
    assert [task.as_dict() for task in suite.tasks] == [task.as_dict() for task in tasks]
    again = replace(suite, tasks=tuple(tasks))
    assert again.max_tool_steps == suite.max_tool_steps
    assert again.tasks == tuple(suite.tasks)


EXACTLY = "numeric(tolerance=0)"
READ = [
    ("42", 42, EXACTLY), (" -7 ", -7, EXACTLY), ("3.50", 3.5, "numeric"), ("4.0", 4.0, EXACTLY), ("1e3", 1000.0, EXACTLY),
    ("[1, 2]", [1, 2], "exact"), ('{"a": [1]}', {"a": [1]}, "exact"),
    *((text, text, "normalized") for text in ("007", "1234567890123456", "1e999", "1,234", "NaN", "true", "null", "[sic]", "?! ")),
]  # fmt: skip
TYPED = [("42", "normalized"), (42, EXACTLY), (10**15, "exact"), (0.5, "numeric"), (True, "normalized"), ([1], "exact")]


@pytest.mark.parametrize(
    ("form", "cell", "value", "scorer"), [*(("csv", *one) for one in READ), *(("jsonl", a, a, b) for a, b in TYPED)]
)
def test_what_a_cell_is_read_as_and_scored_by(tmp_path, form, cell, value, scorer):
    path = tmp_path / f"q.{form}"
    with path.open("w", newline="") as file:
        if form == "csv":
            csv.writer(file).writerows([("question", "answer"), ("?", cell)])
        else:
            json.dump({"question": "?", "answer": cell}, file)
    (task,) = make_suite(parse_spec(form), path).tasks
    assert (task.expected, type(task.expected), task.scorer) == (value, type(value), scorer)


def test_every_column_has_its_place_in_the_task(tmp_path):
    row = {
        "Prompt": "Order one.", "GOLD": "7", "Id": 5, "context": "Shop.", "schema": '{"type": "integer"}', "tools": "stock , price",
        "scorer": "exact", "split": "dev", "world": '{"stock": 3}', "topic": "orders", "other": "?",
        "plan": '{"calls": [{"id": "c1", "tool": "price", "arguments": {"item": "x"}, "goal": "Look."}], "answer": {"$ref": "c1"}}',
    }  # fmt: skip
    path = tmp_path / "q.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([row.keys(), row.values()])
    (task,) = load_csv(path, TOOLS, labels="topic").tasks
    plan = Plan((PlannedCall("c1", "price", {"item": "x"}, "Look."),), Ref("c1"))
    assert task == Task(
        "5", Query("Order one.", "Shop.", {"type": "integer"}), 7, "exact", plan, labels={"topic": "orders", "split": "dev"},
        world={"stock": 3, "$tools": ["stock", "price"]},
    )  # fmt: skip
    suite = load_csv(path, TOOLS)
    assert [tool.name for tool in suite.open(task).tools] == ["stock", "price"]
    left = load_csv(path, TOOLS, columns={"id": "", "schema": "", "context": "topic", "plan": "", "tools": "", "scorer": ""})
    assert left.tasks[0] == Task(
        "q-0001", Query("Order one.", "orders"), 7, "numeric(tolerance=0)", None, "the file gives none", labels={"split": "dev"},
        world={"stock": 3},
    )  # fmt: skip


def test_a_row_may_do_without_an_answer_where_a_scorer_of_the_users_own_is_typed(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("question,answer\na,\nb,2\n")
    assert [task.expected for task in load_csv(path, scorer="own.module:score(x=1)").tasks] == [None, 2]
    with pytest.raises(ValueError, match=r"line 2, column 'answer': the answer is missing; .* csv\(scorer=\"my.module:scorer\"\)"):
        load_csv(path, scorer="numeric")


def test_what_parquet_and_frames_hold_becomes_json(tmp_path):
    table = {
        "question": ["a", "b"],
        "answer": [decimal.Decimal("2.50"), None],
        "scorer": ["numeric", "own.module:score"],
        "day": [datetime.date(2026, 3, 1), None],
        "picture": [b"\x89", b""],
    }
    path = tmp_path / "q.parquet"
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    frame = pandas.DataFrame(table)
    for suite in (
        parquet.load(path, scorer="own.module:score", labels=("day",)),
        suite_from_frame(frame, scorer="own.module:score", labels=["day"]),
    ):
        assert [(task.expected, task.labels) for task in suite.tasks] == [(2.5, {"day": "2026-03-01"}), (None, {})]
    with pytest.raises(ValueError, match=r"q\.parquet, row 1, column 'picture': bytes is no JSON value"):
        parquet.load(path, scorer="own.module:score", labels=("picture",))


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_are_not_used_are_told_in_one_line(tmp_path, form, caplog):
    row = {"question": "a", "answer": 1, "prompt": "b", "topic": "x", "Nr\n": "7"}
    suite = written([row, row], form, tmp_path)
    assert [task.query.text for task in suite.tasks] == ["a", "a"]
    (said,) = caplog.messages
    assert said.endswith(": columns not used: 'prompt', 'Nr'" if form == "csv" else ": columns not used: 'prompt', 'Nr\\n'")
    written([{"question": "a", "answer": 1, "topic": "x"}], form, tmp_path)
    assert len(caplog.messages) == 1
    written([{"question": "a", "answer": 1, "topic": "x", "plans": "x", "Gold": 2}], form, tmp_path)
    assert caplog.messages[1].endswith("not used: 'plans', 'Gold'")
