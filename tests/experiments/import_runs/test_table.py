"""Tables of trials: CSV, TSV, JSON lines."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files, parse_map
from whichloop.experiments.import_runs.columns import COLUMNS
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.foreign_trials import ONLY_OURS
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.table_rows import list_of_rows
from whichloop.experiments.import_runs.values import score
from whichloop.metrics.summary import METRICS

HEAD = "arm,task,repeat,score\n"

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Z")), min_size=1, max_size=8).filter(
    lambda name: name.lower() not in ("nan", "na", "n/a", "null", "none")
)
amounts = st.one_of(st.none(), st.integers(0, 10**6))
trials = st.lists(
    st.fixed_dictionaries(
        {
            "arm": st.sampled_from(["a", "b", "c d"]),
            "task": names,
            "score": st.one_of(st.none(), st.sampled_from([0, 1, 0.25])),
            "steps": amounts,
            "tokens": amounts,
            "cost_usd": st.one_of(st.none(), st.floats(0, 1000).map(lambda value: round(value, 6))),
        }
    ),
    min_size=1,
    max_size=12,
)


def as_csv(rows, delimiter=",", encoding="utf-8"):
    file = io.StringIO()
    made = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_MINIMAL)
    made.writeheader()
    made.writerows(rows)
    return file.getvalue().encode(encoding)


def only(found):
    (record,) = found.records
    return record


NESTED = [
    {"meta": {"agent": agent, "q": task}, "eval": {"score": right, "by": [{"name": "judge"}]}, "note": "x"}
    for agent in ("one", "two")
    for task, right in (("t1", 1.0), ("t2", None))
]
INSIDE = {"arm": "meta.agent", "task": "meta.q", "score": "eval.score"}


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_points_lead_into_the_objects_of_rows(kit, tmp_path, suffix):
    path = kit.put("\n".join(map(json.dumps, NESTED)) if suffix == ".jsonl" else NESTED, suffix)
    records = kit.imported(path, columns=INSIDE | {"cluster": "eval.by.0.name"}).records
    records = sorted(records, key=lambda record: (record.task, record.arm))
    assert [(record.arm, record.task, record.status, record.cluster) for record in records] == [
        ("one", "t1", "scored", "judge"),
        ("two", "t1", "scored", "judge"),
        ("one", "t2", "errored", "judge"),
        ("two", "t2", "errored", "judge"),
    ]
    made = import_files([path], ImportRequest(reading=ReadingOptions(columns=INSIDE)), tmp_path / "run")
    assert made.columns == {str(path): {"note": "", "meta.agent": "arm", "meta.q": "task", "eval.score": "score"}}
    with pytest.raises(ValueError, match=r"--map arm: nothing stands at 'meta.agnt'; there are meta.agent"):
        kit.imported(path, columns=INSIDE | {"arm": "meta.agnt"})


@settings(max_examples=cases(12))
@given(trials, st.sampled_from([",", "\t", ";"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_every_row_is_a_record_and_says_what_the_row_says(kit, rows, delimiter, encoding):
    found = kit.imported(kit.put(as_csv(rows, delimiter, encoding), ".csv"))
    lines = kit.imported(kit.put("\n".join(json.dumps(row) for row in rows), ".jsonl"))
    assert lines.digest == found.digest
    assert [record.cost_usd for record in lines.records] == [record.cost_usd for record in found.records]
    counted: dict[tuple[str, str], int] = {}
    records = {record.key: record for record in found.records}
    for row in rows:
        cell = (row["arm"], row["task"])
        record = records[*cell, counted.setdefault(cell, 0)]
        counted[cell] += 1
        assert record.status == ("errored" if row["score"] is None else "scored")
        for metric in ("steps", "tokens", "cost_usd"):
            assert METRICS[metric](record) == row[metric]
        if row["score"] is not None:
            assert record.accuracy == row["score"]
    assert sum(record.status == "excluded" for record in records.values()) == len(records) - len(rows)


@pytest.mark.parametrize("values", [("0", "1"), ("1", "2"), ("1.0", "2.0"), ("9", "10"), ("42", "1337"), ("first", "second")])
def test_repeats_are_told_apart_whatever_they_are_called(kit, values):
    rows = [f"{arm},{task},{value},{score}" for arm in "ab" for task in "xy" for value, score in zip(values, "01", strict=True)]
    found = kit.imported(kit.put(HEAD + "\n".join(rows), ".csv"))
    assert {(record.repeat, record.accuracy) for record in found.records} == {(0, 0.0), (1, 1.0)}
    assert found.manifest.settings.repeats == 2


@pytest.mark.parametrize(
    ("meaning", "word"),
    [(meaning, word) for meaning, words in COLUMNS.items() for word in words if "." not in word and meaning != "messages"],
)
def test_names_in_any_case_are_understood_and_no_others(kit, meaning, word):
    rest = [one for one in ("task", "score") if one != meaning]
    cell = {"stop": "finished", "status": "ok", "repeat": "3"}.get(meaning, "1")
    for name in (word.replace("_", " ").upper(), word.replace("_", "-").title()):
        log = read_file(kit.put(f"{name},{','.join(rest)}\n{cell}" + ",1" * len(rest), ".csv"), ImportRequest())
        assert log.columns[name] == meaning
    assert read_file(kit.put(f"task,score,{word}_x\n1,1,{cell}\n", ".csv"), ImportRequest()).columns[f"{word}_x"] == ""


def test_columns_are_mapped(kit):
    text = "trial,agent,who,state,used,success,score\nq1,x,a,success,7,yes,9\nq2,x,a,odd,8,no,8\n"
    path = kit.put(text, ".csv")
    columns = parse_map(["task=trial,arm=who", "tokens=used,status=,score=Success"])
    found = kit.imported(path, columns=columns)
    assert [(r.arm, r.task, r.repeat, r.input_tokens, r.accuracy) for r in found.records] == [
        ("a", "q1", 0, 7, 1),
        ("a", "q2", 0, 8, 0),
    ]
    with pytest.raises(ValueError, match=r"line 3: status 'odd' is none of .*; --map error=COLUMN,status="):
        kit.imported(path, columns={**columns, "status": "state"})
    with pytest.raises(ValueError, match=r"--map task: no column 'nowhere'; there are trial, agent"):
        kit.imported(path, columns={"task": "nowhere"})
    with pytest.raises(ValueError, match=r"--map arm: column 'trial' is mapped twice"):
        kit.imported(path, columns={"task": "trial", "arm": "trial"})
    with pytest.raises(ValueError, match=r"--scorer and --map score=… both name a column; give one of them"):
        kit.imported(path, columns=columns, scorer="score")
    with pytest.raises(ValueError, match=r"--map status: this format takes arm, model, task, score, "):
        kit.imported(kit.put(kit.log(kit.sample(1))), columns=columns)


@given(st.dictionaries(st.sampled_from(sorted(COLUMNS)), st.text("ab ,=", max_size=5).map(str.strip), min_size=1))
def test_a_map_is_read_as_it_is_written(columns):
    file = io.StringIO()
    csv.writer(file).writerow([f"{meaning}={column}" for meaning, column in columns.items()])
    assert parse_map([file.getvalue()]) == columns


@pytest.mark.parametrize("text", ["task", "tasks=a", "=a", "task=a,task=b", "task=a,,"])
def test_a_map_that_is_none_is_refused_with_its_name(text):
    with pytest.raises(ValueError, match="--map "):
        parse_map([text])


def test_a_row_can_say_everything(kit):
    row = {
        "arm": "a",
        "task": "t",
        "score": "P",
        "status": "scored",
        "stop": "max_steps",
        "error": "why",
        "steps": 3,
        "lm_calls": 4,
        "tool_calls": 2,
        "input_tokens": 100,
        "output_tokens": 7,
        "cost": 0.5,
        "seconds": 1.5,
        "confidence": 0.9,
        "cluster": "k",
        "model": "gpt",
        "answer": "42",
        "suite": "sums",
        "extra": "left out",
    }
    found = kit.imported(kit.put(as_csv([row]), ".csv"))
    record = only(found)
    assert (record.accuracy, record.stop, record.reason, record.answer) == (0.5, "max_steps", "why", "42")
    assert (record.steps, record.lm_calls, record.tool_calls, record.tokens, record.input_tokens) == (3, 4, 2, 107, 100)
    assert (record.cost_usd, record.seconds, record.confidence, record.cluster, record.suite) == (0.5, 1.5, 0.9, "k", "sums")
    assert found.comparison.arms[0].info.model == "gpt"
    assert set(record.unknown) == {"cached_tokens", "repeated_calls", *ONLY_OURS}


def test_which_of_two_scores_is_the_accuracy_is_not_guessed(kit):
    path = kit.put("task,resolved,Success\nx,0.3,1\n", ".csv")
    with pytest.raises(ValueError, match=r"columns Success, resolved; say which is the accuracy: --scorer Success$"):
        kit.imported(path)
    assert only(kit.imported(path, scorer="resolved")).accuracy == 0.3


def test_errored_rows_say_why(kit):
    rows = "arm,task,status,score,error\na,v,,1,\na,w,,,\na,x,error,1,timed out\na,y,excluded,,bad task\na,z,,,no key\n"
    path = kit.put(rows, ".csv")
    found = {record.task: (record.status, record.reason, record.accuracy) for record in kit.imported(path).records}
    assert found == {
        "v": ("scored", "", 1.0),
        "w": ("errored", "the score is blank", 0.0),
        "x": ("errored", "timed out", 0.0),
        "y": ("excluded", "bad task", 0.0),
        "z": ("errored", "no key", 0.0),
    }
    counted = {record.task: record.status for record in kit.imported(path, errors_as_failures=True).records}
    assert counted == {"v": "scored", "w": "errored", "x": "scored", "y": "excluded", "z": "scored"}


@settings(max_examples=cases(12))
@given(trials)
def test_a_json_array_is_the_table_of_its_rows(kit, rows):
    lines = kit.imported(kit.put("\n".join(json.dumps(row) for row in rows), ".jsonl"))
    assert kit.imported(kit.put(rows)).digest == lines.digest


# --- numbers ---


def numbers(kit, name, *cells, **reading):
    """What is read of cells of a column in a CSV file."""
    scores = {} if "score" in name.lower() else {"score": 1}
    rows = [{"task": f"t{n}", **scores, name: cell} for n, cell in enumerate(cells)]
    log = read_file(kit.put(as_csv(rows), ".csv"), ImportRequest(reading=ReadingOptions(**reading)))
    (meaning,) = [told.split(" ")[0] for column, told in log.columns.items() if column == name]
    return [getattr(trial, meaning) for trial in log.trials]


@pytest.mark.parametrize(
    ("name", "cells", "found"),
    [
        ("latency_ms", ["350", "1.5e3"], [0.35, 1.5]),
        ("durationMs", ["7"], [0.007]),
        ("Elapsed (min)", ["2"], [120]),
        ("cost (cents)", ["3"], [0.03]),
        ("cost", ["$0.04", "-"], [0.04, None]),
        ("tokens", ["1,965", "12", "1,234,567"], [1965, 12, 1234567]),
        ("score", ["85%", "7 %", "1.0000000000000002", "-1e-12", "0.9999999999"], [0.85, 0.07, 1, 0, 1]),
        ("Score (%)", ["85", "7"], [0.85, 0.07]),
        ("confidence", ["90%", "1.0000000001"], [0.9, 1]),
    ],
)
def test_numbers_are_read_in_the_unit_that_the_name_says(kit, name, cells, found):
    assert numbers(kit, name, *cells) == found


@given(st.lists(st.decimals(0, 10**7, places=2, allow_nan=False), min_size=1, max_size=5), st.booleans())
def test_decimal_commas_are_read_by_an_option_and_refused_without(kit, values, is_parted):
    cells = [f"{value:,.2f}".replace(",", "t").replace(".", ",").replace("t", "." if is_parted else "") for value in values]
    assert numbers(kit, "cost", *cells, decimal_comma=True) == [float(value) for value in values]
    with pytest.raises(ValueError, match=r"line 2: cost is not a number: '.*'; with decimal commas: --decimal-comma$"):
        numbers(kit, "cost", *cells)


def test_verdicts_in_words_are_scores():
    right = ("yes", "Y", "TRUE", "t", "pass", "PASSED", "success", "correct", "right", "✓", "✅", "C", "1", True)
    wrong = ("no", "n", "False", "f", "fail", "FAILED", "failure", "incorrect", "wrong", "✗", "❌", "I", "0", False)
    assert {score(word, None) for word in right} == {1}
    assert {score(word, None) for word in wrong} == {0}


@pytest.mark.parametrize("sign", ["ERROR", "errored", "crashed"])
def test_a_column_of_verdicts_tells_scores_errors_and_what_was_skipped(kit, sign):
    path = kit.put(f"agent,task,Result\na,w,PASS\na,x,no\na,y,{sign}\na,z,skipped\n", ".csv")
    found = kit.imported(path, scorer="Result").records
    assert [(record.status, record.accuracy, record.stop) for record in found] == [
        ("scored", 1, None),
        ("scored", 0, None),
        ("errored", 0, "crashed"),
        ("excluded", 0, None),
    ]
    counted = kit.imported(path, scorer="Result", errors_as_failures=True).records
    assert [record.status for record in counted] == ["scored", "scored", "scored", "excluded"]


# --- what is told ---


def test_what_each_column_was_read_as_is_told_and_kept(kit, tmp_path):
    path = kit.put("Who,task,seed,score,latency_ms,mood,cost\na,x,11,1,20,good,\na,x,22,1,10,bad,\n", ".csv")
    reading = ReadingOptions(columns={"arm": "Who", "repeat": "seed"})
    made = import_files([path], ImportRequest(reading=reading), tmp_path / "run")
    told = {
        "Who": "arm",
        "task": "task",
        "seed": "repeat",
        "score": "score",
        "latency_ms": "seconds × 0.001",
        "mood": "",
        "cost": "",
    }
    assert made.columns == {str(path): told}
    assert (made.readings, made.remarks) == ((), [])
    (source,) = results(made.folder).manifest.imported.sources  # type: ignore[union-attr]
    assert source.readings == (
        "Who → arm, task → task, seed → repeat, score → score, latency_ms → seconds × 0.001, mood → not read, cost → not read",
    )


def test_rows_of_a_task_count_as_repeats_which_is_told(kit):
    text = "agent,task,score\na,x,1\na,x,0\na,x,1\na,y,1\n,,\n"
    log = read_file(kit.put(text, ".csv"), ImportRequest())
    assert log.repeats == 3
    assert log.notes == ["no column of the repeat: 1 of 2 tasks of an arm have several rows, at most 3, as repeats"]
    assert read_file(kit.put(text.replace(",,", "-,-,"), ".csv"), ImportRequest()).notes[0] == (
        "rows with nothing in the columns read: 1, left out"
    )


# --- the list of rows in a JSON value ---

ROWS = [{"task": f"t{n}", "score": n % 2} for n in range(6)]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.booleans())
def test_a_sole_list_below_objects_is_found_at_any_depth(keys, beside):
    data: Any = ROWS
    for key in keys:
        data = {key: data} | ({"note": "text", "tags": ["x"]} if beside else {})
    place, rows = list_of_rows(data, ReadingOptions())
    assert (place, rows) == (".".join(reversed(keys)), ROWS)
    assert list_of_rows(data, ReadingOptions(rows=place))[1] == ROWS


def test_of_several_lists_the_places_are_named_and_what_is_printed_picks_one(kit):
    path = kit.put({"old": {"rows": ROWS}, "results": {"rows": ROWS[:4]}})
    with pytest.raises(ValueError, match=r"several .*: old.rows \(6 rows\), results.rows \(4 rows\).*--rows old.rows$"):
        read_file(path, ImportRequest())
    log = read_file(path, ImportRequest(reading=ReadingOptions(rows="old.rows")))
    assert (len(log.trials), log.readings) == (6, ["rows of old.rows"])
    with pytest.raises(ValueError, match=r"--rows: no list of rows stands at 'rows'; there are old.rows \(6 rows\)"):
        read_file(path, ImportRequest(reading=ReadingOptions(rows="rows")))


@pytest.mark.parametrize(
    ("text", "ending", "kind"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', ".log", ".jsonl"),
        ('{"a": 1}\n{"a": 2', ".txt", ".jsonl"),
        ('{"a": 1}\n', ".log", ".log"),
        ('[{"a": 1}]\n{"a": 2}\n', ".json", ".json"),
        ('{"a": 1}\n{"a": 2}\n', ".csv", ".csv"),
        ("", ".log", ".log"),
    ],
)
def test_json_lines_are_known_by_what_they_are_where_the_name_does_not_tell(kit, text, ending, kind):
    with open_file(kit.put(text, ending)) as file:
        assert file.suffix == kind
