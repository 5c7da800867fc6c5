"""Tables with a column per agent: how such a table becomes one with a row per score is told, where it is one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ReadingOptions
from whichloop.experiments.import_runs.column_hints import melt_hint
from whichloop.experiments.import_runs.table_rows import FileRow


def hint(cells: Mapping[str, list[Any]]) -> str:
    rows = [FileRow(f"row {n}", dict(zip(cells, row, strict=True))) for n, row in enumerate(zip(*cells.values(), strict=True), 1)]
    return melt_hint(list(cells), rows, ReadingOptions())


@pytest.mark.parametrize(
    ("right", "wrong"), [(1, 0), ("1", "0.5"), ("pass", "fail"), ("True", "false"), (True, False), ("yes", "no"), ("C", "I")]
)
@settings(max_examples=cases(8))
@given(st.lists(st.booleans(), min_size=2, max_size=6).filter(lambda drawn: len(set(drawn)) == 2))
def test_columns_of_scores_of_one_kind_are_told_and_the_call_makes_a_row_of_each_score(right, wrong, drawn):
    scores = [right if each else wrong for each in drawn]
    cells = {"task": [f"t{n}" for n in range(len(drawn))], "level": ["easy"] * len(drawn), "old": scores, "new": scores[::-1]}
    told = re.fullmatch(r"; if old, new are agents .*: frame\.melt\(id_vars=(\[.*\]), var_name=\"agent\", .*\)", hint(cells))
    assert told
    assert told[1] == "['task', 'level']"
    melted = pd.DataFrame(cells).melt(id_vars=["task", "level"], var_name="agent", value_name="score")
    assert len(melted) == 2 * len(drawn)


@pytest.mark.parametrize(
    "cells",
    [
        {"old": [0.5, 1]},
        {"old": [0.5, 1], "confidence": [0.5, 0.5]},
        {"old": [0.5, 1], "solved_it": ["pass", "fail"]},
        {"is_hard": [True, False], "has_tools": [False, True]},
        {"temperature": [1, 1], "top_p": [0.9, 0.9]},
        {"old": ["pass", "fail"], "new": ["pass", "slow"]},
        {"old": ["pass", 0.5], "new": ["pass", "fail"]},
        {"old": ["pass", "fail"], "new": ["fail", "pass"], "hard": [0, 1], "long": [1, 0]},
    ],
)
def test_a_table_that_is_none_of_these_is_not_told_so(cells):
    assert hint({"task": ["t1", "t2"], **cells}) == ""


def test_columns_of_another_kind_are_no_agents():
    told = hint({"task": ["t1", "t2"], "hard": [0, 1], "old": ["pass", "fail"], "new": ["", "pass"]})
    assert told.startswith("; if old, new are agents")
    assert "id_vars=['task', 'hard']" in told


def test_the_refusal_ends_with_it(kit):
    path = kit.put("task,old,new,note\nt1,0.5,,x\nt2,1,0,y\n", ".csv")
    melt = """frame.melt(id_vars=['task', 'note'], var_name="agent", value_name="score")"""
    with pytest.raises(ValueError, match=re.escape(f"if old, new are agents with a column each, make a row of each score: {melt}")):
        kit.imported(path)
    with pytest.raises(ValueError, match=r"--map score=COLUMN$"):
        kit.imported(kit.put("task,old,confidence\nt1,0.5,0.5\n", ".csv"))
