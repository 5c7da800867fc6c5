"""What is wrong with a file of rows is a ValueError of one line, which names file, line and column."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.datasets.test_rows import TOOLS
from whichloop.datasets import jsonl, parquet
from whichloop.datasets.csv import load as load_csv
from whichloop.datasets.importing import json_files
from whichloop.datasets.task import Suite
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite

HEAD = "question,answer\n"
DEEP = "[" * 101 + "]" * 101


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.csv: the file is empty"),
        ("Frage,Gold\na,1\n", "f.csv: no column for the question (question, prompt, input, query); its columns: 'Frage', 'Gold'"),
        (HEAD + "a,\n", "f.csv, line 2, column 'answer': the answer is missing; fill it in, or name a scorer"),
        (HEAD + "a,1\nb\n", "f.csv, line 3: the record has 1 cells, and the header has 2 columns"),
        (HEAD + '"a\nb",1\n\nc\n', "f.csv, line 5: the record has 1 cells"),
        (HEAD + '"a,1\n', "f.csv, line 2: not CSV (unexpected end of data)"),
        (HEAD + "a\rb,1\n", "f.csv, line 2: not CSV ("),
        (HEAD + "a\0,1\n", "f.csv, line 2: the text is not UTF-8 (there is a NUL byte)"),
        ("id,question,answer\nx,a,1\ny,b,1\nx,c,1\n", "f.csv, line 4: id 'x' stands in line 2 already"),
        ('id,question,answer\n"a\nb",a,1\n', "f.csv, line 2, column 'id': 'a\\nb' is not an id"),
        ('schema,question,answer\n"{""type"": 3}",a,1\n', "f.csv, line 2, column 'schema': not a JSON schema (3 is not valid"),
        (f"world,question,answer\n{DEEP},a,1\n", "f.csv, line 2, column 'world': not JSON (it is nested deeper than 100 levels)"),
        ("tools,question,answer\nprice;stock,a,1\n", "f.csv, line 2, no tool 'price;stock'; shop has price, stock"),
        ("end_state,question,answer\n{},a,1\n", "f.csv, line 2, an end state needs tools that have one"),
        ("scorer,question,answer\nos:getcwd,a,1\n", "f.csv, line 2, scorer 'os:getcwd' is code of your own"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_csv_file_is_one_line(tmp_path, monkeypatch, text, said):
    check(tmp_path, monkeypatch, "csv", text, said)


def test_a_scorer_that_was_typed_lets_no_row_name_other_code(tmp_path, monkeypatch):
    own, other = "scorer,question,answer\nown:score(x=2),a,1\n", "os:getcwd,b,1\n"
    check(tmp_path, monkeypatch, "csv", own + other, "f.csv, line 3, scorer 'os:getcwd' is code of your own", scorer="own:score")
    Path("f.csv").write_text(own)
    assert [task.scorer for task in load_csv("f.csv", scorer="own:score").tasks] == ["own:score(x=2)"]


def check(folder, monkeypatch, form, text, said, **options):
    monkeypatch.chdir(folder)
    Path(f"f.{form}").write_bytes(text.encode())
    with pytest.raises(ValueError, match=re.escape(said)) as told:
        LOADERS[form](Path(f"f.{form}"), TOOLS, **options)
    assert "\n" not in str(told.value)


LOADERS: dict[str, Callable[..., Suite]] = {"csv": load_csv, "jsonl": jsonl.load, "parquet": parquet.load}


CALL = {"id": "c1", "tool": "price", "arguments": {}, "goal": "Look."}
PLAN = {"calls": [CALL], "answer": 1}
WHOLE = {"id": "a", "query": {"text": "?"}, "expected": 1}


def line(**changes: Any) -> str:
    return json.dumps(WHOLE | changes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\n{"question": "a", }\n', "f.jsonl, line 2: not JSON ("),
        ('{"question": "a", "answer": NaN}', "f.jsonl, line 1: not JSON (NaN is not JSON)"),
        ('{"question": "a", "answer": "\\ud800"}', "f.jsonl, line 1: not JSON ("),
        (f'{{"question": "a", "answer": {"[" * 5000}', "f.jsonl, line 1: not JSON (it is nested too deep)"),
        (f"{line()}\n\n{line()}", "f.jsonl, line 3: id 'a' stands in line 1 already"),
        (line(lables={}), "line 1, field 'lables': Extra inputs are not permitted"),
        (line(world={"$tools": ["prices"]}), "f.jsonl, line 1, no tool 'prices'; shop has price, stock"),
        (line(world={"$tools": ["stock"]}, plan=PLAN), "f.jsonl, line 1, task 'a', call 'c1': no tool 'price'; shop has stock"),
        (line(plan={"calls": [], "answer": {"$ref": "c9"}}), "f.jsonl, line 1, column 'plan': not a plan (the answer"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_json_lines_is_one_line(tmp_path, monkeypatch, text, said):
    check(tmp_path, monkeypatch, "jsonl", text, said)


@settings(max_examples=cases(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(form=st.sampled_from(["csv", "jsonl", "parquet"]), data=st.data())
def test_any_bytes_are_a_suite_or_a_value_error_of_one_line(tmp_path, form, data):
    part = st.binary(max_size=8) | st.sampled_from(FRAGMENTS)
    raw = b"".join(data.draw(st.lists(part, max_size=12)))
    if form == "parquet" and data.draw(st.booleans()):
        raw = SMALL_PARQUET[: (at := data.draw(st.integers(0, len(SMALL_PARQUET))))] + raw + SMALL_PARQUET[at + len(raw) :]
    path = tmp_path / f"f.{form}"
    path.write_bytes(raw)
    try:
        suite = LOADERS[form](path, TOOLS)
    except ValueError as error:
        said = str(error)
    else:
        said = str(path)
        assert len(list(suite.tasks)) == len(suite.tasks) > 0
        assert len(suite.digest) == 64
    assert said.startswith(str(path))
    assert "\n" not in said


FRAGMENTS = [
    b"question,answer\n", b"\n", b'"', b",", b"a,1\n", b"\xef\xbb\xbf", b'{"question": "a", "answer": 1}\n', b"id,", b"PAR1",
    b'{"query": {"text": "a"}', b', "id": "x", "expected": ', b"null}\n", b', "plan": {"calls": [], "answer": 1}',
    b', "world": {"$tools": []}',
]  # fmt: skip


OUT = io.BytesIO()
pyarrow.parquet.write_table(pyarrow.table({"question": ["a", "b"], "answer": [1, 2]}), OUT)
SMALL_PARQUET = OUT.getvalue()


@pytest.mark.parametrize(
    ("form", "text"), [("jsonl", '{"question": "a", "answer": 1}\n{"question": "%s", "answer": 1}\n'), ("csv", HEAD + 'a,"%s\n')]
)
def test_a_row_that_is_too_long_is_refused(tmp_path, monkeypatch, form, text):
    monkeypatch.setattr(json_files, "MAX_LINE_BYTES", 100)
    path = tmp_path / f"f.{form}"
    path.write_text(text % ("x" * 100))
    with pytest.raises(ValueError, match="line 2: the line is longer than 100 bytes"):
        make_suite(parse_spec(form), path)
