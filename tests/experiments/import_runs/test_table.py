"""Tables of trials: what their rows, columns and cells say."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files, parse_map
from whichloop.experiments.import_runs.columns import COLUMNS, list_of_rows
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.formats.table import error_in
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.values import score, usage_in, with_total
from whichloop.metrics.summary import METRICS

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


INSIDE = {"arm": "meta.agent", "task": "meta.q", "score": "eval.score"}


def test_names_in_any_case_are_understood_and_no_others(kit):
    for meaning, words in COLUMNS.items():
        for word in words:
            if "." not in word and meaning != "messages":
                is_understood(kit, meaning, word)


def is_understood(kit, meaning, word):
    rest = [one for one in ("task", "score") if one != meaning]
    cell = {"stop": "finished", "status": "ok", "repeat": "3"}.get(meaning, "1")
    for name in (word.replace("_", " ").upper(), word.replace("_", "-").title()):
        log = read_file(kit.put(f"{name},{','.join(rest)}\n{cell}" + ",1" * len(rest), ".csv"), ImportRequest())
        assert log.columns[name] == meaning
    assert read_file(kit.put(f"task,score,{word}_x\n1,1,{cell}\n", ".csv"), ImportRequest()).columns[f"{word}_x"] == ""


def numbers(kit, name, *cells, **reading):
    """What is read of cells of a column in a CSV file."""
    scores = {} if "score" in name.lower() else {"score": 1}
    rows = [{"task": f"t{n}", **scores, name: cell} for n, cell in enumerate(cells)]
    log = read_file(kit.put(as_csv(rows), ".csv"), ImportRequest(reading=ReadingOptions(**reading)))
    (meaning,) = [told.split(" ")[0] for column, told in log.columns.items() if column == name]
    return [getattr(trial, meaning) for trial in log.trials]


@given(st.lists(st.decimals(0, 10**7, places=2, allow_nan=False), min_size=1, max_size=5), st.booleans())
def test_decimal_commas_are_read_by_an_option_and_refused_without(kit, values, is_parted):
    cells = [f"{value:,.2f}".replace(",", "t").replace(".", ",").replace("t", "." if is_parted else "") for value in values]
    assert numbers(kit, "cost", *cells, decimal_comma=True) == [float(value) for value in values]
    with pytest.raises(ValueError, match=r"line 2: cost is not a number: '.*'; with decimal commas: --decimal-comma$"):
        numbers(kit, "cost", *cells)


ROWS = [{"task": f"t{n}", "score": n % 2} for n in range(6)]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.booleans())
def test_a_sole_list_below_objects_is_found_at_any_depth(keys, beside):
    data: Any = ROWS
    for key in keys:
        data = {key: data} | ({"note": "text", "tags": ["x"]} if beside else {})
    place, rows = list_of_rows(data, ReadingOptions())
    assert (place, rows) == (".".join(reversed(keys)), ROWS)
    assert list_of_rows(data, ReadingOptions(rows=place))[1] == ROWS


counts = st.integers(0, 10**9)


@given(counts, counts, st.one_of(st.none(), counts))
def test_the_larger_one_of_total_and_sum_is_counted(asked, wrote, total):
    found = with_total(asked, wrote, total)
    assert found.input == asked
    assert found.input + found.output == max(asked + wrote, total or 0)
    assert usage_in({"prompt_tokens": asked, "completion_tokens": wrote, "total_tokens": total}) == found
    assert usage_in({"input_tokens": asked, "total_tokens": total}) is None


@settings(max_examples=cases(12))
@given(trials, st.sampled_from([",", "\t", ";"]), st.sampled_from(["utf-8", "utf-8-sig"]))
def test_every_row_is_a_record_and_says_what_the_row_says_in_every_form(kit, rows, delimiter, encoding):
    found = kit.imported(kit.put(as_csv(rows, delimiter, encoding), ".csv"))
    lines = kit.imported(kit.put("\n".join(map(json.dumps, rows)), ".jsonl"))
    assert lines.digest == kit.imported(kit.put(rows)).digest == found.digest
    assert [record.cost_usd for record in lines.records] == [record.cost_usd for record in found.records]
    counted: Counter[tuple[str, str]] = Counter()
    records = {record.key: record for record in found.records}
    for row in rows:
        cell = (row["arm"], row["task"])
        record = records[*cell, counted[cell]]
        counted[cell] += 1
        assert record.status == ("errored" if row["score"] is None else "scored")
        assert {metric: METRICS[metric](record) for metric in ("steps", "tokens", "cost_usd")}.items() <= row.items()
        assert row["score"] is None or record.accuracy == row["score"]
    assert sum(record.status == "excluded" for record in records.values()) == len(records) - len(rows)


def test_points_lead_into_the_objects_of_rows(kit, tmp_path):
    path = kit.files / "nested.jsonl"
    made = import_files([path], ImportRequest(reading=ReadingOptions(columns=INSIDE)), tmp_path / "run")
    assert made.columns == {str(path): {"note": "", "meta.agent": "arm", "meta.q": "task", "eval.score": "score"}}
    with pytest.raises(ValueError, match=r"--map arm: nothing stands at 'meta.agnt'; there are meta.agent"):
        kit.imported(path, columns=INSIDE | {"arm": "meta.agnt"})


def test_columns_are_mapped_and_which_of_two_scores_is_the_accuracy_is_not_guessed(kit):
    path = kit.put("trial,agent,who,state,used,success,score\nq1,x,a,success,7,yes,9\nq2,x,a,odd,8,no,8\n", ".csv")
    columns = parse_map(["task=trial,arm=who", "tokens=used,status=,score=success"])
    found = kit.imported(path, columns=columns)
    told = [(r.arm, r.task, r.repeat, r.input_tokens, r.accuracy) for r in found.records]
    assert told == [("a", "q1", 0, 7, 1), ("a", "q2", 0, 8, 0)]
    for changes, more, said in (
        ({**columns, "status": "state"}, {}, r"line 3: status 'odd' is none of .*; --map error=COLUMN,status="),
        ({"task": "nowhere"}, {}, r"--map task: no column 'nowhere'; there are trial, agent"),
        ({"task": "trial", "arm": "trial"}, {}, r"--map task: column 'trial' is mapped twice"),
        (columns, {"scorer": "score"}, r"--scorer and --map score=… both name a column; give one of them"),
    ):
        with pytest.raises(ValueError, match=said):
            kit.imported(path, columns=changes, **more)
    with pytest.raises(ValueError, match=r"--map status: this format takes arm, model, task, score, "):
        kit.imported(kit.put(kit.log(kit.sample(1))), columns=columns)
    path = kit.put("task,resolved,Success\nx,0.3,1\n", ".csv")
    with pytest.raises(ValueError, match=r"columns Success, resolved; say which is the accuracy: --scorer Success$"):
        kit.imported(path)
    assert only(kit.imported(path, scorer="resolved")).accuracy == 0.3


@given(st.dictionaries(st.sampled_from(sorted(COLUMNS)), st.text("ab ,=", max_size=5).map(str.strip), min_size=1))
def test_a_map_is_read_as_it_is_written_and_one_that_is_none_is_refused(columns):
    file = io.StringIO()
    csv.writer(file).writerow([f"{meaning}={column}" for meaning, column in columns.items()])
    assert parse_map([file.getvalue()]) == columns
    for text in ("task", "tasks=a", "=a", "task=a,task=b", "task=a,,"):
        with pytest.raises(ValueError, match="--map "):
            parse_map([text])


UNITS: list[tuple[str, list[str], list[float | None]]] = [
    ("latency_ms", ["350", "1.5e3"], [0.35, 1.5]),
    ("Elapsed (min)", ["2"], [120]),
    ("cost (cents)", ["3"], [0.03]),
    ("cost", ["$0.04", "-"], [0.04, None]),
    ("tokens", ["1,965", "12", "1,234,567"], [1965, 12, 1234567]),
    ("score", ["85%", "7 %", "1.0000000000000002", "-1e-12", "0.9999999999"], [0.85, 0.07, 1, 0, 1]),
]


def test_numbers_are_read_in_the_unit_that_the_name_says(kit):
    for name, told, found in UNITS:
        assert numbers(kit, name, *told) == found


RIGHT = ("yes", "Y", "TRUE", "t", "pass", "PASSED", "success", "correct", "right", "✓", "✅", "C", "1", True)
WRONG = ("no", "n", "False", "f", "fail", "FAILED", "failure", "incorrect", "wrong", "✗", "❌", "I", "0", False)


def test_verdicts_in_words_are_scores():
    assert ({score(word, None) for word in RIGHT}, {score(word, None) for word in WRONG}) == ({1}, {0})


def test_a_cell_says_that_there_was_an_error_or_none_or_is_its_text(kit):
    cells: tuple[Any, ...] = (False, "FALSE", 0, "0", "no", "None", "nan", "ok", "", None, [], "-")
    for cell in cells:
        assert error_in(cell) == ""
        rows = [{"task": "x", "score": 1, "error": cell}, {"task": "y", "score": None, "error": cell}]
        scored, blank = kit.imported(kit.put(rows)).records
        assert (scored.reason, blank.reason, blank.stop) == ("", "the score is blank", None)
    for cell in ("timeout", "1 error"):
        path = kit.put([{"task": "x", "score": None, "error": cell}, {"task": "y", "score": 1, "error": False}])
        failed, counted = (kit.imported(path, errors_as_failures=counts).records[0] for counts in (False, True))
        assert (failed.status, failed.reason, failed.stop) == ("errored", cell, "crashed")
        assert (counted.status, counted.accuracy) == ("scored", 0.0)


FORMS: list[tuple[str, str, str]] = [
    ('{"a": 1}\n\n{"a": 2}\n', ".log", ".jsonl"),
    ('{"a": 1}\n{"a": 2', ".txt", ".jsonl"),
    ('{"a": 1}\n', ".log", ".log"),
    ('[{"a": 1}]\n{"a": 2}\n', ".json", ".json"),
    ('{"a": 1}\n{"a": 2}\n', ".csv", ".csv"),
    ("", ".log", ".log"),
]


def test_json_lines_are_known_by_what_they_are_where_the_name_does_not_tell(kit):
    for text, ending, kind in FORMS:
        with open_file(kit.put(text, ending)) as file:
            assert file.suffix == kind
