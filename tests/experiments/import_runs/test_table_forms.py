"""Tables as other tools and spreadsheets export them, with the flaws of real files: each is read truly, or refused in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, parse_map
from whichloop.experiments.import_runs.columns import list_of_rows
from whichloop.experiments.import_runs.formats.table import read_messages
from whichloop.experiments.import_runs.importing import read_file
from whichloop.metrics.trace import ToolRun
from whichloop.runs.store.trials import read_trace


def read_as(path, *columns, **reading):
    return read_file(path, ImportRequest(reading=ReadingOptions(columns=parse_map(columns), **reading)))


any_cells = st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3)
tables = st.lists(st.fixed_dictionaries({"task": any_cells, "score": any_cells, "cost": any_cells}), min_size=1, max_size=4)

json_values = st.recursive(
    any_cells, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=8
)

ASKED = {"role": "user", "content": "What does item 10 cost?"}
SAID = {"role": "assistant", "content": "12"}
words = st.text("abc {:", max_size=6)


def called(number, arguments='{"item": 10}'):
    call = {"id": f"c{number}", "type": "function", "function": {"name": "price", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def gave(number, content, **more):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content, **more}


def row(task, *messages, **more):
    return {"agent": "careful", "task_id": task, "trial": 0, "messages": [ASKED, *messages], "success": True} | more


def lines(*rows):
    return "\n".join(map(json.dumps, rows))


@given(st.lists(words, max_size=4), words)
@settings(max_examples=cases(8))
def test_every_call_and_reply_of_the_messages_is_counted(kit, results, answer):
    turns = [item for number, text in enumerate(results) for item in (called(number), gave(number, text))]
    found = kit.imported(kit.put(lines(row("x", *turns, {"role": "assistant", "content": answer})), ".jsonl"))
    (record,) = found.records
    assert (record.steps, record.lm_calls, record.tool_calls) == (len(results) + 1, len(results) + 1, len(results))
    assert (record.answer, record.stop) == ((answer, "finished") if answer else (None, None))
    ran = [event.data for event in read_trace(found.folder, record).events if isinstance(event, ToolRun)]
    assert ran == results


def test_messages_of_another_name_are_read_where_they_are_mapped(kit):
    csv = 'agent,task_id,success,turns_of_it\ncareful,x,1,"' + json.dumps([ASKED, SAID]).replace('"', '""') + '"\n'
    assert kit.imported(kit.put(csv, ".csv")).records[0].trace_at == 0
    found = kit.imported(kit.put(csv, ".csv"), columns={"messages": "turns_of_it"})
    (record,) = found.records
    assert (record.answer, read_trace(found.folder, record).head.query) == ("12", ASKED["content"])


ODD = [
    ([ASKED, SAID, {"role": "critic", "content": "no"}], "message 3: role is 'critic', not system, user, assistant or tool"),
    ("see the log", "the cell is a text that is no JSON array"),
    ([ASKED, {"role": "assistant", "content": 3}], "message 2: content is neither a text nor a list of parts: 3"),
    ({"role": "user"}, "the cell is not a list: "),
]


@pytest.mark.parametrize(("messages", "said"), ODD)
def test_messages_that_are_none_are_refused_with_their_place_and_may_be_left_out(kit, messages, said):
    path = kit.put(lines(row("whole", SAID), row("odd") | {"messages": messages}), ".jsonl")
    with pytest.raises(ValueError, match=f"line 2: messages, which --map messages= leaves out: {said}"):
        kit.imported(path)
    assert len(kit.imported(path, columns={"messages": ""}).records) == 2


HEAD = "arm,task,repeat,score\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("arm,score\na,1\n", r"no column of the task \(task, .*\); there are arm, score; say which: --map task=COLUMN$"),
        ("arm,task,score,score\n", "two columns are called 'score'$"),
        (HEAD + "a,x,0\n", "line 2: the record has 3 cells, and the header has 4 columns"),
        (HEAD + "a,x,0,1\na,x,0,0\n", "line 3: arm a, task x, repeat 0 is in line 2 already"),
        (HEAD + "a,,0,1\na,x,0,1\n", "line 2: the task is empty"),
        (HEAD + 'a,x,0,"1\n', "line 2: not CSV"),
        (HEAD + 'a,x,0,1\n"a\n,x\n,y', "line 3: not CSV"),
        (HEAD + 'a,"x\ny",0,1\na,z,0,seven\n', "line 4: the score is not a number: 'seven'; words: pass, fail, yes, no"),
        ('arm,task,score,latency\na,x,1,"1,965"\n', "line 2: latency is not a number: '1,965'"),
        ("arm;task;score\na;x;0.5\na;y;0,5\n", "line 3: score is not a number: '0,5'; with decimal commas: --decimal-comma$"),
        ("arm,task,score,cost\na,x,1,-3\n", "line 2: cost is negative: '-3'"),
        ("arm,task,score,stop\na,x,1,tired\n", "line 2: stop 'tired' is none of finished, forced.*; --map stop=$"),
        ("arm,task,score,status\na,x,1,fine\n", "line 2: status 'fine' is none of scored, ok, .*; --map error=COLUMN,status=$"),
        ("task,score,question\nx,1,why?\nx,0,who?\n", "line 3: task x: it asks something else than in another trial"),
        ("task,score,cluster\nx,1,s\nx,1,t\n", "task 'x' is of two clusters, 's' and 't'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(kit, text, said):
    path = kit.put(text, ".csv")
    with pytest.raises(ValueError, match=said) as caught:
        kit.imported(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_delimiters_and_empty_columns_are_read(kit):
    for text in ("agent|task|score\na|x|1\n", "\n\nagent,task,score,,\n,,,,\na,x,1,,\n"):
        (trial,) = read_as(kit.put(text, ".csv")).trials
        assert (trial.arm, trial.task, trial.score) == ("a", "x", 1)


NAMED = {"Error: no": "Error", "KeyError: 'x'": "KeyError", "requests.exceptions.ConnectionError: late": "ConnectionError"}
NAMED |= {"Traceback (most recent call last):\n…": "Error", '{"error": "no"}': "Error"}


def test_results_that_name_an_error_are_those_of_failed_calls():
    for result in (*NAMED, '{"error": null, "price": 3}', "The error: none", "12"):
        read = read_messages([ASKED, called(1), gave(1, result), SAID])
        assert read is not None
        (ran,) = [event for event in read[0].events if isinstance(event, ToolRun)]
        assert (ran.status, ran.error_type) == (("error", NAMED[result]) if result in NAMED else ("untold", None)), result


@given(tables, json_values)
def test_a_list_below_objects_is_the_table_and_any_other_value_is_one_or_refused(rows, data):
    for form in (rows, {"meta": {"n": 1}, "runs": {"items": rows}}):
        assert list(list_of_rows(form, ReadingOptions())[1]) == rows
    try:
        _, found = list_of_rows(data, ReadingOptions())
    except ValueError:
        return
    assert isinstance(data, list) or all({"task", "score"} <= {name for other in found for name in other} for _ in found)


MANY = [*(f"a,t{n},1" for n in range(1500)), *("b,t0,1" for _ in range(1500))]
NO_TABLES: dict[str, tuple[Any, str]] = {
    r"line 2: the text is not UTF-8 \(there is a NUL byte\)": ("agent,task,score\na,x\0y,1\n", ".csv"),
    "line 2: the text is not UTF-8": ("agent,task,score\na,é,1\n".encode("cp1252"), ".csv"),
    r"^[^:]*\.parquet: not a Parquet file \(": (b"PAR1 and no more", ".parquet"),
    "65 arms, more than 64": ("arm,task,score\n" + "\n".join(f"a{n},x,1" for n in range(65)), ".csv"),
    "2 arms × 1500 tasks × 1500 repeats are more than": ("arm,task,score\n" + "\n".join(MANY), ".csv"),
}


@pytest.mark.parametrize("said", NO_TABLES)
def test_what_is_no_table_or_too_large_is_told_in_one_line(kit, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put(*NO_TABLES[said]))
