"""Arms whose tasks have names of their own: the column that names the same tasks in all of them is told."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import GivenRows, ImportRequest, ReadingOptions, import_files, parse_map
from whichloop.experiments.import_runs.importing import OTHER_TASKS, task_column_hint

HEAD = "id,case name,seed,level,score,question"


def table(kit, prefix, questions, head=HEAD):
    rows = (f"{prefix}-{n},case {n},{n % 2},{'easy' if n < 9 else 'hard'},{n % 2},{asked}" for n, asked in enumerate(questions))
    return kit.put("\n".join([head, *rows]), ".csv")


@settings(max_examples=cases(12))
@given(st.integers(4, 12), st.integers(1, 3))
def test_the_column_with_the_most_values_in_common_is_told_and_typing_it_compares(kit, tasks, repeats):
    asked = [f"q{n}" for n in range(tasks)] * repeats
    paths = [table(kit, prefix, asked, HEAD.replace("case name", "id of it")) for prefix in "ab"]
    told = task_column_hint(paths, ImportRequest())
    assert told.startswith(f"column 'id of it' has {tasks * repeats} values that stand in several arms; ")
    flag, typed = shlex.split(told.rpartition(": ")[2])
    assert (flag, typed) == ("--map", "task=id of it")
    compared = kit.imported(*paths, columns=parse_map([typed]))
    assert len(compared.comparison.pairs) > 0


def test_files_and_arms_of_one_file_are_told_apart_alike(kit, tmp_path):
    questions = [f"why {n}?" for n in range(10)]
    apart = [table(kit, prefix, questions, HEAD.replace("case name", "example")) for prefix in "ab"]
    said = "column 'question' has 10 values that stand in several arms; if it names the tasks: --map task=question"
    by_id = ImportRequest(reading=ReadingOptions(columns={"task": "id"}))
    short = [kit.put("id,score,question\n" + "\n".join(f"{p}{n},1,{q}" for n, q in enumerate(questions)), ".csv") for p in "ab"]
    assert task_column_hint(short, by_id) == said
    made = import_files(short, by_id, tmp_path / "run")
    assert made.apart.endswith(said)
    rows = [f"{arm},{arm}{n},1,{asked}" for arm in "ab" for n, asked in enumerate(questions)]
    assert task_column_hint([kit.put("\n".join(["arm,id,score,question", *rows]), ".csv")], by_id) == said
    given_rows = GivenRows(
        "rows", kit.line([dict(zip(("arm", "id", "score", "question"), row.split(","), strict=True)) for row in rows]).encode()
    )
    assert task_column_hint([given_rows], by_id) == said
    assert "example" in task_column_hint(apart, by_id)


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("seed", ["7", "8", "9", "6"]),
        ("row", ["0", "1", "2", "3"]),
        ("row", ["1", "2", "3", "4"]),
        ("level", ["easy"] * 4),
        ("steps", ["7", "8", "9", "6"]),
        ("text", [f"{n}" + "x" * 400 for n in range(4)]),
        ("spend", ["0.01", "0.02", "0.03", "1"]),
        ("latency_ms", ["110", "120", "130", "140"]),
        ("judge score", ["3", "4", "5", "6"]),
        ("started", ["2026-01-02T10:00:00Z", "2026-01-02 10:01:00", "2026-01-03", "2026-01-04"]),
        ("took", ["0:01:30", "1:30.5", "2:00", "3:00"]),
        ("it's", ["p", "q", "r", "s"]),
    ],
)
def test_a_column_that_names_no_tasks_is_not_told(kit, column, cells):
    paths = [kit.put(f"id,score,{column}\n" + "\n".join(f"{p}{n},1,{c}" for n, c in enumerate(cells)), ".csv") for p in "ab"]
    assert task_column_hint(paths, ImportRequest()) == OTHER_TASKS


def test_a_column_that_only_one_file_has_or_whose_values_differ_is_not_told(kit):
    one, two, three = (
        kit.put(f"id,score,{name}\n" + "\n".join(f"{name}{n}{start},1,w{n + start}" for n in range(6)), ".csv")
        for name, start in (("case name", 0), ("other", 0), ("case name", 4))
    )
    assert task_column_hint([one, two], ImportRequest()) == OTHER_TASKS
    assert task_column_hint([one, three], ImportRequest()) == OTHER_TASKS
