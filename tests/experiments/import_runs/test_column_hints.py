"""Columns by the names that other tools give them, and what to type for those that are left out."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, parse_map
from whichloop.experiments.import_runs.importing import read_file


def read(path, columns=(), **reading):
    return read_file(path, ImportRequest(reading=ReadingOptions(columns=parse_map(columns), **reading)))


def columns_read(kit, head):
    """Meaning → column, as the table of these columns is read."""
    rows = [",".join("1" for _ in head.split(","))]
    (told, *_) = read(kit.put("\n".join([head, *rows]) + "\n", ".csv")).readings
    return dict(part.split("=") for part in told.partition(": ")[2].split(", "))


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("test_case_id,score,latency_ms,total_tokens,trial", {"task": "test_case_id", "seconds": "latency_ms", "repeat": "trial"}),
        ("Test Case ID,Score,Latency (ms),Total Cost (USD)", {"seconds": "Latency (ms)", "cost_usd": "Total Cost (USD)"}),
        (
            "testIdx,score,latencyMs,promptTokens,completionTokens",
            {"input_tokens": "promptTokens", "output_tokens": "completionTokens"},
        ),
        ("example_id,score,execution_time,repetition", {"seconds": "execution_time", "repeat": "repetition"}),
        ("dataset_item_id,score,Duration [s],cost in USD", {"seconds": "Duration [s]", "cost_usd": "cost in USD"}),
        ("task,accuracy (%),latency,latency_ms", {"score": "accuracy (%)", "seconds": "latency_ms"}),
        ("task,score,seconds,latency_ms", {"seconds": "seconds"}),
        ("task,score,Cost ($),usage.total_tokens", {"cost_usd": "Cost ($)", "tokens": "usage.total_tokens"}),
    ],
)
def test_the_names_of_other_tools_are_read_where_they_are_plain(kit, head, found):
    assert found.items() <= columns_read(kit, head).items()


@pytest.mark.parametrize("head", ["task,score,avg latency", "task,score,tokens (k)", "task,score,price per token"])
def test_names_that_say_something_else_are_not_read(kit, head):
    name = head.split(",")[2]
    log = read(kit.put(f"{head}\nx,1,1\n", ".csv"))
    assert log.notes == (f"columns left out: {name}",)


def test_two_columns_of_scores_are_told_by_any_spelling(kit):
    with pytest.raises(ValueError, match=r"columns Score, accuracy \(%\); say which is the accuracy: --scorer Score$"):
        read(kit.put("task,Score,accuracy (%)\nx,1,1\n", ".csv"))
    with pytest.raises(ValueError, match=r"columns Score \(%\), passed; .*: --scorer 'Score \(%\)'$"):
        read(kit.put("task,passed,Score (%)\nx,1,1\n", ".csv"))


def test_a_table_is_told_what_reads_more_of_it(kit):
    head = "agent,task,score,model latency ms,Spend (USD),Seed no,Category,usage tokens,note"
    rows = "".join(f"a,y{n},1,350,$0.02,11,l{n},7,n\n" for n in range(7))
    path = kit.put(f'{head}\na,x,1,1200,$0.04,11,k,"1,965",n\n{rows}', ".csv")
    (note,) = read(path).notes
    cure = "repeat=Seed no,tokens=usage tokens,cost_usd=Spend (USD),seconds=model latency ms,cluster=Category"
    assert note.endswith(f"; to read more of them: --map {shlex.quote(cure)}")
    log = read(path, [cure])
    assert log.notes == ("columns left out: note",)
    assert [(trial.seconds, trial.cost_usd, trial.tokens, trial.cluster) for trial in log.trials[:2]] == [
        (1.2, 0.04, 1965, "k"),
        (0.35, 0.02, 7, "l0"),
    ]


@pytest.mark.parametrize(("clusters", "decide"), [(4, "nothing"), (7, "little")])
def test_of_few_clusters_it_is_told_what_they_would_decide(kit, clusters, decide):
    rows = "".join(f"a,x{n},1,k{n % clusters},5\n" for n in range(20))
    (note,) = read(kit.put(f"agent,task,score,Category,model latency ms\n{rows}", ".csv")).notes
    assert note == (
        "columns left out: Category, model latency ms; to read more of them: --map 'seconds=model latency ms'; "
        "--map cluster=Category would make the clusters of 'Category' count in place of tasks, "
        f"and {clusters} clusters decide {decide}"
    )


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        ("Dauer (s)", "to read it: --map 'seconds=Dauer (s)'"),
        ("Dauer [ms]", "to read it: --map 'seconds=Dauer [ms]'"),
        ("Kosten ($)", "to read it: --map 'cost_usd=Kosten ($)'"),
        (
            "cost (€)",
            "'cost (€)' is not in US dollars by its name: convert it, or have it taken as US dollars: --map 'cost_usd=cost (€)'",
        ),
        ("agent(s)", ""),
        ("limit (s)", ""),
    ],
)
def test_a_unit_in_brackets_hints_at_what_a_column_holds(kit, head, hint):
    path = kit.put(f"agent,task,score,{head}\na,x,1,2\na,y,1,3\n", ".csv")
    (note,) = read(path).notes
    assert note == f"columns left out: {head}{'; ' * bool(hint)}{hint}"
    if hint:
        (typed,) = shlex.split(hint.partition("--map ")[2])
        assert not any(head in told and "left out" in told for told in read(path, [typed]).notes)


CELLS = st.sampled_from(["", "1", "0.5", "$2", "12ms", "x", "1,965", "0,5", "high", "ERROR"])
WORDS = st.sampled_from(
    ["wall", "latency", "ms", "usage", "tokens", "input", "spend", "USD", "seed", "topic", "error", "agent", "my"]
)


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=4, unique=True),
    st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=5),
)
def test_what_a_table_is_told_to_type_is_accepted(kit, names, rows):
    file = io.StringIO()
    made = csv.writer(file)
    made.writerow(["task", "score", *names])
    made.writerows([f"t{number // 2}", 1, *cells[: len(names)]] for number, cells in enumerate(rows))
    path = kit.put(file.getvalue(), ".csv")
    try:
        notes = read(path).notes
    except ValueError:
        return
    for typed in re.findall(r"to read (?:it|more of them): --map (.*)$", "\n".join(notes), re.MULTILINE):
        read(path, shlex.split(typed))


@pytest.mark.parametrize(
    ("head", "cells", "cure"),
    [
        ("task,Result", ("PASS", "FAIL"), "score=Result"),
        ("task,Test result", ("✓", "ERROR"), "'score=Test result'"),
        ("task,feedback.helpful", ("1.0", "0.0"), "score=feedback.helpful"),
        ("task,metrics.estimated_cost,scores.Factuality", ("0.9", "0.1"), "score=scores.Factuality"),
    ],
)
def test_a_column_that_may_be_the_score_is_told(kit, head, cells, cure):
    between = ",0.5" * (head.count(",") - 1)
    text = f"{head}\n" + "".join(f"t{number}{between},{cell}\n" for number, cell in enumerate(cells))
    with pytest.raises(ValueError, match=rf"which holds {', '.join(cells)}: --map {re.escape(cure)}$"):
        read(kit.put(text, ".csv"))


@pytest.mark.parametrize("head", ["task,kind,flag", "task,output,size"])
def test_no_column_is_taken_for_the_score_where_none_or_several_may_be(kit, head):
    text = f"{head}\nx,yes,no\ny,no,yes\n" if "flag" in head else f"{head}\nx,a,3\ny,b,4\n"
    with pytest.raises(ValueError, match="no column of the score") as caught:
        read(kit.put(text, ".csv"))
    assert "which holds" not in str(caught.value)


def test_places_inside_of_objects_are_told(kit):
    rows = [
        {"testIdx": test, "provider": {"id": provider, "label": ""}, "success": True, "usage": {"total_tokens": 7}, "cost": 0.1}
        for test in range(2)
        for provider in ("one", "two")
    ]
    path = kit.put("\n".join(map(json.dumps, rows)), ".jsonl")
    left, pooled = read(path).notes
    assert left == "columns left out: provider"
    assert pooled.startswith("column 'provider.id' tells 2 kinds of trials apart (one, two)")
    assert pooled.endswith("to compare them: --map arm=provider.id")
    log = read(path, ["arm=provider.id"])
    assert [(trial.arm, trial.task, trial.tokens) for trial in log.trials] == [
        (arm, task, 7) for task in "01" for arm in ("one", "two")
    ]


@pytest.mark.parametrize(
    ("head", "column"),
    [
        ("agent,prompt id,correct", "'task=prompt id'"),
        ("agent,nodeid,correct", "task=nodeid"),
        ("agent name,my question,correct", "'task=my question'"),
        ("agent,a,b", ""),
    ],
)
def test_a_column_that_may_name_the_tasks_is_told(kit, head, column):
    with pytest.raises(ValueError, match="no column of the task") as caught:
        read(kit.put(f"{head}\na,x,1\na,y,0\n", ".csv"))
    assert str(caught.value).endswith(f"names the tasks: --map {column}" if column else "--map task=COLUMN,score=COLUMN")


SHEET = "What was asked,Version of the agent,Verdict,note\n" + "".join(
    f"question {n},{agent},{'PASS' if (n + len(agent)) % 3 else 'FAIL'},n{n}\n" for n in range(8) for agent in ("old", "newer")
)


def test_a_sheet_of_a_human_is_read_as_the_first_refusal_says(kit):
    """The law: one refusal names all columns that are needed and likely, and what it prints reads the table."""
    sheet = SHEET.replace("What was asked", "Question asked")
    path = kit.put(sheet, ".csv")
    with pytest.raises(ValueError, match=r"no column of the task, such as .*, and no column of the score") as caught:
        read(path)
    said = str(caught.value)
    assert "if 'Question asked' names the tasks, 'Verdict' is the score, which holds " in said
    assert "and 'Version of the agent' tells the arms apart (newer, old): --map " in said
    log = read(path, shlex.split(said.rpartition("--map ")[2]))
    assert {arm.name for arm in log.arms} == {"old", "newer"}
    assert len(log.trials) == 16


def test_of_a_sheet_that_says_less_the_rest_is_left_to_the_user(kit):
    with pytest.raises(ValueError, match="say which they are: --map task=COLUMN,score=COLUMN") as caught:
        read(kit.put(SHEET, ".csv"))
    assert str(caught.value).endswith("if 'Verdict' is the score, which holds FAIL, PASS: --map score=Verdict")
