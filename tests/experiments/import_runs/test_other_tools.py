"""Tables as other tools and spreadsheets export them, with the flaws of real files: each is read truly, or refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, parse_map
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.table_rows import list_of_rows

ROWS = [{"task": "x", "score": 1, "cost": 0.5}, {"task": "y", "score": 0, "cost": None}]


def read(path, *columns, **reading):
    return read_file(path, ImportRequest(reading=ReadingOptions(columns=parse_map(columns), **reading)))


def told(log):
    return [(trial.arm, trial.task, trial.score) for trial in log.trials]


def test_a_german_spreadsheet_is_read(kit):
    text = (
        '\ufeffsep=;\r\n"Agent";"Test Case ID";"Ergebnis";"Kosten (USD)";"Latency (s)";"Tokens";;\r\n'
        '"Alt";"T1";"PASS";"0,04";"1,5";"1.965";;\r\n"Neu";"T1";"FAIL";"1.234,5";"1,965";"965";;\r\n;;;;;;;\r\n'
        '"Alt";"T2";"ERROR";"";"–";"#N/A";;\r\n"Neu";"T2";"PASS";"1,02";"2";"1.000";;\r\n'
    )
    path = kit.put(text.encode(), ".csv")
    log = read(path, "task=Test Case ID,score=Ergebnis,cost_usd=Kosten (USD)", decimal_comma=True)
    assert [(trial.score, trial.cost_usd, trial.seconds, trial.tokens) for trial in log.trials] == [
        (1, 0.04, 1.5, 1965),
        (0, 1234.5, 1.965, 965),
        (None, None, None, None),
        (1, 1.02, 2, 1000),
    ]
    assert log.trials[2].status == "errored"
    with pytest.raises(ValueError, match="line 3: the score is not a number: 'x'"):
        read(kit.put("sep=;\ntask;score\na;x\n", ".csv"))


@pytest.mark.parametrize(
    "text", ["agent|task|score\na|x|1\n", "agent,task,score\ra,x,1\r", "\n\nagent,task,score,,\n,,,,\na,x,1,,\n"]
)
def test_other_delimiters_line_ends_and_empty_columns_are_read(kit, text):
    assert told(read(kit.put(text, ".csv"))) == [("a", "x", 1)]


@pytest.mark.parametrize(
    ("content", "suffix", "said"),
    [
        ("agent,task,score\na,x\0y,1\n", ".csv", "line 2: a NUL character"),
        ("agent,task,score\n".encode("utf-16-le"), ".csv", "line 1: a NUL character"),
        ("agent,task,score\na,é,1\n".encode("cp1252"), ".csv", "line 2: not UTF-8 text; save the table as CSV UTF-8"),
        (b"PK\x03\x04 and more", ".xlsx", "a workbook of a spreadsheet; save its sheet as CSV UTF-8"),
        ({"a": ROWS, "b": ROWS}, ".json", r"several lists in it hold trials: a \(2 rows\), b \(2 rows\)"),
        ({"a": [1, 2], "b": "x"}, ".json", "no format recognizes it; say what it is"),
    ],
)
def test_what_is_no_table_is_told_in_one_line(kit, content, suffix, said):
    with pytest.raises(ValueError, match=said):
        read(kit.put(content, suffix))


cells = st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3)
tables = st.lists(st.fixed_dictionaries({"task": cells, "score": cells, "cost": cells}), min_size=1, max_size=4)


@given(tables)
def test_a_table_by_its_columns_is_that_of_its_rows(rows):
    names = list(rows[0])
    by_column = {name: {str(number): row[name] for number, row in enumerate(rows)} for name in names}
    by_list = {name: [row[name] for row in rows] for name in names}
    split = {"columns": names, "index": list(range(len(rows))), "data": [[row[name] for name in names] for row in rows]}
    for data in (rows, by_column, by_list, split, {"meta": {"n": 1}, "runs": {"items": rows}}):
        assert list(list_of_rows(data, ReadingOptions())[1]) == rows


json_values = st.recursive(
    cells, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=8
)


@given(st.dictionaries(st.sampled_from(["task", "score", "results", "columns", "data"]), json_values))
def test_any_object_is_a_table_or_refused(data):
    try:
        _, rows = list_of_rows(data, ReadingOptions())
    except ValueError:
        return
    assert all({"task", "score"} <= {name for other in rows for name in other} for _ in rows)
