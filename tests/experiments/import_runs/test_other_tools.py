"""Tables as other tools and spreadsheets export them, with the flaws of real files: each is read truly, or refused in one line."""

from __future__ import annotations

import json

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


PROMPTFOO = {
    "evalId": "eval-1",
    "results": {
        "version": 3,
        "prompts": [{"raw": "{{q}}", "label": "p", "id": "1", "provider": "one", "metrics": {"score": 1}}],
        "results": [
            {
                "promptIdx": 0,
                "testIdx": test,
                "provider": {"id": provider, "label": ""},
                "success": test == 0,
                "score": 0.5,
                "latencyMs": 1200,
                "cost": 0.01,
                "tokenUsage": {"total": 12, "prompt": 10, "completion": 2},
                "error": None,
            }
            for test in range(2)
            for provider in ("one", "two")
        ],
        "stats": {"successes": 2},
    },
    "config": {"tests": [{"vars": {"q": "x"}}], "prompts": ["{{q}}"]},
}


def test_results_of_promptfoo_are_read_inside_their_json(kit):
    path = kit.put(PROMPTFOO)
    with pytest.raises(ValueError, match=r"columns score, success; say which is the accuracy: --scorer score$"):
        read(path)
    log = read(path, "arm=provider.id,tokens=tokenUsage.total", scorer="success")
    assert told(log) == [("one", "0", 1), ("two", "0", 1), ("one", "1", 0), ("two", "1", 0)]
    assert {(trial.seconds, trial.cost_usd, trial.tokens) for trial in log.trials} == {(1.2, 0.01, 12)}
    assert log.readings[0] == "rows read: those of 'results.results'"


def test_the_csv_of_promptfoo_points_to_its_json(kit):
    text = "q,[one] p,Grader Reason,Comment,[two] p,Grader Reason,Comment\nx,[PASS] a,,,[FAIL] b,,\n"
    with pytest.raises(ValueError, match=r"two columns are called 'Grader Reason'; of promptfoo.*promptfoo eval -o results.json$"):
        read(kit.put(text, ".csv"))


def test_a_test_run_of_deepeval_is_read_where_its_names_are_mapped(kit):
    cases = [{"name": f"case {n}", "success": n == 0, "metricsData": [{"score": 0.5}], "evaluationCost": 1.5} for n in range(2)]
    path = kit.put({"testFile": None, "testCases": cases, "metricsScores": []})
    with pytest.raises(ValueError, match=r"recognizes it: no list in it has trials by its names, of 'testCases' \(2 rows\)"):
        read(path)
    log = read(path, "task=name,score=success")
    assert [(trial.task, trial.score) for trial in log.trials] == [("case 0", 1), ("case 1", 0)]
    assert {trial.cost_usd for trial in log.trials} == {None}  # what the judge cost


def test_a_table_of_langsmith_is_told_its_score(kit):
    head = ",inputs.question,outputs.output,error,reference.answer,feedback.correctness,execution_time,example_id,id"
    path = kit.put(f"{head}\n0,q1,a,,b,1.0,1.25,e1,r1\n1,q2,a,boom,b,,2.5,e2,r2\n2,q3,a,,b,0.0,0.5,e3,r3\n", ".csv")
    with pytest.raises(ValueError, match=r"no column of the score.*--map score=feedback.correctness$") as caught:
        read(path)
    assert "there are inputs.question" in str(caught.value)
    log = read(path, "score=feedback.correctness")
    assert [(trial.task, trial.status, trial.seconds) for trial in log.trials] == [
        ("e1", "scored", 1.25),
        ("e2", "errored", 2.5),
        ("e3", "scored", 0.5),
    ]


def test_runs_of_phoenix_are_told_where_their_score_is(kit):
    rows = [
        {
            "example_id": f"e{n}",
            "repetition_number": 1,
            "latency_ms": 2142.5,
            "annotations": [{"name": "correct", "score": float(n)}],
        }
        for n in range(2)
    ]
    path = kit.put(rows)
    with pytest.raises(ValueError, match=r"--map score=annotations.0.score$"):
        read(path)
    assert [(trial.score, trial.seconds) for trial in read(path, "score=annotations.0.score").trials] == [(0, 2.1425), (1, 2.1425)]


def test_a_log_of_openai_evals_leaves_its_head_and_its_report_out(kit):
    lines = [
        {"spec": {"eval_name": "sums"}},
        *({"run_id": "r", "sample_id": f"s.{n}", "type": "match", "data": {"correct": n == 0}} for n in range(2)),
        {"final_report": {"accuracy": 0.5}},
    ]
    log = read(kit.put("\n".join(map(json.dumps, lines)), ".jsonl"), "score=data.correct")
    assert [(trial.task, trial.score) for trial in log.trials] == [("s.0", 1), ("s.1", 0)]
    assert "2 rows have nothing in the columns read, such as line 1: left out" in log.notes


def test_a_german_spreadsheet_is_read(kit):
    text = (
        '\ufeffsep=;\r\n"Agent";"Test Case ID";"Ergebnis";"Kosten (USD)";"Latency (s)";"Tokens";;\r\n'
        '"Alt";"T1";"PASS";"0,04";"1,5";"1.965";;\r\n"Neu";"T1";"FAIL";"1.234,5";"1,965";"965";;\r\n;;;;;;;\r\n'
        '"Alt";"T2";"ERROR";"";"–";"#N/A";;\r\n"Neu";"T2";"PASS";"1,02";"2";"1.000";;\r\n'
    )
    path = kit.put(text.encode(), ".csv")
    log = read(path, "score=Ergebnis,cost_usd=Kosten (USD)")
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


def test_a_long_answer_is_read(kit):
    (trial,) = read(kit.put(f'agent,task,score,output\na,x,1,"{"z" * 200_000}"\n', ".csv")).trials
    assert trial.answer.startswith("zzz")


@pytest.mark.parametrize(
    ("content", "suffix", "said"),
    [
        ("agent,task,score\na,x\0y,1\n", ".csv", "line 2: a NUL character"),
        ("agent,task,score\n".encode("utf-16-le"), ".csv", "line 1: a NUL character"),
        ("agent,task,score\na,é,1\n".encode("cp1252"), ".csv", "line 2: not UTF-8 text; save the table as CSV UTF-8"),
        (b"PK\x03\x04 and more", ".xlsx", "a workbook of a spreadsheet; save its sheet as CSV UTF-8"),
        ({"a": ROWS, "b": ROWS}, ".json", r"several lists in it hold trials: 'a' \(2 rows\), 'b' \(2 rows\)"),
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
        assert list(list_of_rows(data, ReadingOptions()).rows) == rows


json_values = st.recursive(
    cells, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=8
)


@given(st.dictionaries(st.sampled_from(["task", "score", "results", "columns", "data"]), json_values))
def test_any_object_is_a_table_or_refused(data):
    try:
        rows = list_of_rows(data, ReadingOptions()).rows
    except ValueError:
        return
    assert all({"task", "score"} <= {name for other in rows for name in other} for _ in rows)
