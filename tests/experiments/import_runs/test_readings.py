"""How a table is read is told: its columns, its repeats, its errors, and what kind of file it is."""

from __future__ import annotations

import pytest

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files, parse_map
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.importing import read_file


@pytest.mark.parametrize(
    ("text", "ending", "kind"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', ".log", ".jsonl"),
        ('{"a": 1}\n{"a": 2', ".txt", ".jsonl"),
        ('{"a": 1}\n', ".log", ".log"),
        ('{\n"a": 1}\n', ".json", ".json"),
        ('[{"a": 1}]\n{"a": 2}\n', ".json", ".json"),
        ('{"a": 1} {"a": 2}\n', ".log", ".log"),
        ('{"a": 1}\n{"a": 2}\n', ".csv", ".csv"),
        ("", ".log", ".log"),
    ],
)
def test_json_lines_are_known_by_what_they_are_where_the_name_does_not_tell(kit, text, ending, kind):
    with open_file(kit.put(text, ending)) as file:
        assert file.suffix == kind


@pytest.mark.parametrize("meaning", ["error", "exception", "error_message", "status"])
def test_a_column_of_any_name_that_is_mapped_as_the_error_or_the_status_says_that_one_ended_the_trial(kit, meaning):
    path = kit.put("arm,task,score,Crash\na,v,1,\na,w,,failed\na,x,,\n", ".csv")
    counted = kit.imported(path, errors_as_failures=True, columns=parse_map([f"{meaning}=Crash"])).records
    assert [(record.status, record.accuracy) for record in counted] == [("scored", 1.0), ("scored", 0.0), ("errored", 0.0)]
    said = kit.imported(path, errors_as_failures=True, columns={"reason": "Crash"}).records
    assert [record.status for record in said] == ["scored", "errored", "errored"]


def test_what_the_flag_for_errors_changed_is_told_and_what_would_change_the_rest(kit, tmp_path):
    rows, flagged = "arm,task,score,error\na,v,1,\na,w,,boom\na,x,,boom\n", ReadingOptions(errors_as_failures=True)
    done = import_files([kit.put(rows, ".csv")], ImportRequest(reading=flagged), tmp_path / "done")
    assert done.readings[-1] == "--errors-as-failures: 2 trials that an error ended are scored 0"
    assert (done.notes, done.remarks) == ((), [])
    blank = import_files([kit.put(rows.replace("boom", ""), ".csv")], ImportRequest(reading=flagged), tmp_path / "blank")
    assert blank.notes == (
        "--errors-as-failures: 2 errored trials stay left out; to count them as failures, write 0 as their score, "
        "or name the column that says which error ended them: --map error=COLUMN --errors-as-failures",
    )
    assert len(blank.readings) == 1
    unflagged = import_files([kit.put(rows, ".csv")], ImportRequest(), tmp_path / "unflagged")
    assert (unflagged.notes, len(unflagged.readings)) == ((), 1)
    cure = "2 trials were ended by an error: if that was the agents' own failure, --errors-as-failures scores them 0"
    assert unflagged.remarks == ["left out: 2 of 3 trials, errored: boom", cure]


@pytest.mark.parametrize(
    ("word", "score", "status"), [("Failed", "", "errored"), ("failure", "0", "scored"), ("passed", "1", "scored")]
)
def test_a_failed_trial_is_errored_only_if_it_has_no_score(kit, word, score, status):
    found = kit.imported(kit.put(f"arm,task,status,score\na,v,{word},{score}\na,w,ok,1\n", ".csv")).records
    assert [record.status for record in found] == [status, "scored"]


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        ((11, 22, 33), "repeats 11, 22, 33 are shown as 0 to 2"),
        ((1, 2), "repeats 1, 2 are shown as 0 to 1"),
        (("b", "a"), "repeats a, b are shown as 0 to 1"),
        ((7,), "repeat 7 is shown as 0"),
        ((0, 1), None),
    ],
)
def test_how_columns_and_repeats_were_read_is_told(kit, repeats, said):
    rows = "".join(f"a,{task},{repeat},1,2\n" for task in "xy" for repeat in repeats)
    path = kit.put(f"Who,task,seed,score,cost\n{rows}", ".csv")
    told = read_file(path, ImportRequest(reading=ReadingOptions(columns={"arm": "Who", "repeat": "seed"}))).readings
    columns = "columns read: arm=Who, repeat=seed; by their names: task=task, score=score, cost_usd=cost"
    assert told == (columns, said) if said else (columns,)


@pytest.mark.parametrize("text", ['{"task": "a", "score": 1}\n{"task": "b",\n', '{"resourceSpans": []}\n{"resourceSpans": [\n'])
def test_a_bad_line_of_json_is_named_by_one_number(kit, text):
    with pytest.raises(ValueError, match=r"\.jsonl: line 2: (?!.*line).* at column \d+$"):
        read_file(kit.put(text, ".jsonl"), ImportRequest())


def test_unequal_repeats_are_told_to_be_numbered_within_arm_and_task(kit):
    path = kit.put("arm,task,repeat,score\na,x,1,1\na,x,2,1\na,y,3,1\n", ".csv")
    assert read_file(path, ImportRequest()).readings == (
        "columns read by their names: arm=arm, task=task, repeat=repeat, score=score",
        "repeats are numbered from 0 within each arm and task, in the order of their column",
    )
