"""What an import says of scales, places of rows, blank columns, copies and names: each hint can be typed, and names what it saw."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, ScoreScale, import_files, parse_map
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.table_rows import list_of_rows
from whichloop.experiments.import_runs.values import off_scale
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import each_record, find_trial

ROWS = [{"task": f"t{n}", "score": n % 2} for n in range(6)]


def table(*rows: Sequence[object], head: str = "agent,task,repeat,score") -> str:
    text = io.StringIO()
    csv.writer(text).writerows([head.split(","), *rows])
    return text.getvalue()


def remarks(kit, content, suffix=".csv", **reading):
    path = kit.put(content, suffix)
    made = import_files([path], ImportRequest(reading=ReadingOptions(**reading)), path.with_suffix(""))
    return " ".join([*made.readings, *made.remarks])


# --- scales ---


@given(st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=1, max_size=9))
def test_a_score_off_the_scale_is_told_with_a_scale_that_reads_all_scores(kit, scores):
    """The law: what is printed can be typed, and takes every score."""
    content = table(*(["a", f"t{n}", 1, score] for n, score in enumerate(scores)), head="agent,task,repeat,grade")
    path = kit.put(content, ".csv")
    if all(0 <= score <= 1 for score in scores):
        assert not off_scale([("here", score) for score in scores], "it")
        return
    with pytest.raises(ValueError, match=r"is not within 0 and 1: scores .* in column 'grade'; say what the scale is") as refused:
        read_file(path, ImportRequest())
    assert f"scores {min(scores):g} to {max(scores):g} in" in str(refused.value) or min(scores) == max(scores)
    typed = re.search(r"--scale (\S+), say$", str(refused.value))
    assert typed
    if all(round(float(f"{score:g}"), 9) == score for score in scores):
        log = read_file(path, ImportRequest(reading=ReadingOptions(scale=ScoreScale.parse(typed[1]))))
        assert len(log.trials) == len(scores)


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([0, 1, 0.5], "scores 0 to 1 use 1 % of --scale 0,100"),
        ([3, 3], "scores of 3 use 0 %"),
        ([0, 5.5], ""),
        ([100, 100], ""),
        ([0, 0], ""),
    ],
)
def test_scores_that_use_hardly_any_of_the_scale_are_told(kit, scores, told):
    content = table(*(["a", f"t{n}", 1, score] for n, score in enumerate(scores)))
    said = remarks(kit, content, scale=ScoreScale(0, 100))
    assert (told in said) if told else ("--scale" not in said)


# --- the place of rows ---


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.booleans())
def test_a_sole_list_below_objects_is_found_at_any_depth(keys, beside):
    data: Any = ROWS
    for key in keys:
        data = {key: data} | ({"note": "text", "tags": ["x"]} if beside else {})
    found = list_of_rows(data, ReadingOptions())
    assert (found.place, found.rows) == (".".join(reversed(keys)), ROWS)
    assert list_of_rows(data, ReadingOptions(rows=found.place)).rows == ROWS


def test_of_several_lists_the_places_are_named_and_what_is_printed_picks_one(kit):
    data = {"old": {"rows": ROWS}, "results": {"rows": ROWS[:4]}}
    path = kit.put(data)
    named = r"several lists in it hold trials: 'old.rows' \(6 rows\), 'results.rows' \(4 rows\)"
    with pytest.raises(ValueError, match=named) as refused:
        read_file(path, ImportRequest())
    typed = shlex.split(str(refused.value).rpartition("--rows ")[2])[0]
    assert len(read_file(path, ImportRequest(reading=ReadingOptions(rows=typed))).trials) == 6
    with pytest.raises(ValueError, match=r"--rows: no list of rows stands at 'rows'; there are 'old.rows' \(6 rows\)"):
        read_file(path, ImportRequest(reading=ReadingOptions(rows="rows")))


def test_a_nested_list_of_other_names_is_read_as_the_hint_says(kit):
    path = kit.put({"results": {"rows": [{"q": f"x{n}", "ok": n % 2} for n in range(4)]}})
    with pytest.raises(
        ValueError, match=r"no list in it has trials by its names, of 'results.rows' \(4 rows\); .* --map task=FIELD,score=FIELD"
    ):
        read_file(path, ImportRequest())
    typed = ReadingOptions(columns=parse_map(["task=q,score=ok"]))
    assert len(read_file(path, ImportRequest(reading=typed)).trials) == 4


# --- blanks, copies, names ---


def test_a_column_that_is_blank_in_every_row_is_not_said_to_be_read(kit):
    rows = [["a", f"t{n}", 1, n % 2, "", 1.5] for n in range(4)]
    said = remarks(kit, table(*rows, head="agent,task,repeat,score,cost,seconds"))
    assert "nothing is read of columns that are blank in every row: cost" in said
    assert "cost_usd=cost" not in said
    assert "seconds=seconds" in said


def test_two_rows_of_one_trial_are_told_with_their_lines_and_both_cures(kit):
    rows = [["a", "x", 1, 1], ["a", "x", 2, 0], ["a", "x", 1, 0]]
    path = kit.put(table(*rows), ".csv")
    lines = r"line 4: arm, task and repeat '1' are in line 2 already; remove one of the two rows if it is a copy; "
    with pytest.raises(ValueError, match=lines + r"if it is another repeat, number it in column 'repeat', or .*: --map repeat=$"):
        read_file(path, ImportRequest())
    assert read_file(path, ImportRequest(reading=ReadingOptions(columns={"repeat": ""}))).repeats == 3


@given(st.sampled_from(["Q 1", "q1 ", "Q1", "q 1", "q1", "q2"]), st.sampled_from(["Q 1", "q1 ", "Q1", "q 1", "q1", "q2"]))
def test_tasks_that_differ_only_in_case_or_spaces_are_told_once(kit, one, other):
    said = remarks(kit, [{"task": one, "score": 1}, {"task": other, "score": 1}], ".json")
    are_alike = one.strip() != other.strip() and "q2" not in (one, other)
    assert said.count("differ only in case or spaces; if they are one task, write one name") == are_alike


def test_a_trial_that_ran_in_several_arms_is_told_with_the_arms(kit):
    path = kit.put(table(*([arm, "t1", 1, 1] for arm in ("old", "new"))), ".csv")
    made = import_files([path], ImportRequest(), path.with_suffix(""))
    with pytest.raises(RunError, match=r"'t1/0' matches 2 trials: old/t1/0, new/t1/0; type more of ARM/TASK/REPEAT$"):
        find_trial(made.folder, "t1/0")
    assert find_trial(made.folder, "new/t1/0").arm == "new"


# --- several refusals at once ---


def test_what_has_to_be_said_besides_the_scorer_is_told_with_it(kit):
    case = {"name": "a", "inputs": 1, "scores": {"stars": {"value": 4}, "tone": {"value": 1}}, "assertions": {}, "labels": {}}
    path = kit.put({"name": "mine", "cases": [case], "failures": []})
    with pytest.raises(
        ValueError, match=r"say which is the accuracy: --scorer stars, .*; and then, with --scorer stars: .* --scale 0,4, say"
    ):
        import_files([path], ImportRequest(), path.with_suffix(""))
    plain = {**case, "scores": {"stars": {"value": 1}, "tone": {"value": 1}}}
    reports = [kit.put({"name": "mine", "cases": [plain], "failures": []}) for _ in range(2)]
    with pytest.raises(ValueError, match=r"--scorer stars, .*; and then, with --scorer stars: .* --arm A --arm B"):
        import_files(reports, ImportRequest(), path.with_suffix(""))


def test_a_trial_of_spans_begins_when_its_root_does(kit):
    span: dict[str, Any] = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "invoke_agent x"}
    span |= {
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000002000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}],
    }
    path = kit.put({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    made = import_files([path], replace(ImportRequest(), format="otlp"), path.with_suffix(""))
    (record,) = each_record(made.folder)
    assert (record.started_at, record.seconds) == (1_700_000_000.0, 2.0)
