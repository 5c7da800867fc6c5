"""Suites that are made in code: functions become tools, and what is wrong is told in one line; quarantine files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop import Environment, Query, StatelessEnvironment, Suite, Task
from whichloop.datasets import arithmetic
from whichloop.datasets.importing.json_files import read_quarantine
from whichloop.datasets.task import with_quarantine

TASK = Task("lamp", Query("What does a lamp cost?"), 39.9)


@pytest.mark.parametrize("error", [NameError("name 'TOOLZ' is not defined"), RecursionError()])
def test_code_of_a_suite_that_cannot_open_its_tasks_is_one_line(error: Exception) -> None:
    def opens(task: Task) -> Environment:
        raise error

    suite = Suite("s", "1", [TASK], opens)
    with pytest.raises(ValueError, match=rf"^suite 's': task '{TASK.id}' cannot be opened: {type(error).__name__}") as told:
        assert suite.digest
    assert told.value.__cause__ is error


def test_tasks_of_a_template_are_one_unit_where_the_suite_says_so_and_they_name_none() -> None:
    of_template, named = (replace(TASK, labels={"template": "prices", **more}) for more in ({}, {"cluster": "c"}))
    strata = Suite("s", "1", [TASK], lambda _: StatelessEnvironment(()))
    clusters = replace(strata, templates="clusters")
    assert [suite.cluster_of(task) for suite in (strata, clusters) for task in (of_template, named)] == ["", "c", "prices", "c"]


SUITE = arithmetic.load(12)
IDS = [task.id for task in SUITE.tasks]


@given(st.dictionaries(st.sampled_from(IDS), st.text(min_size=1)))
@settings(max_examples=cases(12))
def test_exactly_the_named_tasks_are_quarantined(entries: dict[str, str]) -> None:
    made = with_quarantine(SUITE, entries)
    assert {task.id: task.quarantined for task in made.tasks if task.quarantined} == entries
    assert [task.id for task in made.tasks] == IDS
    assert [task.quarantined for task in made.tasks[3:7]] == [entries.get(name, "") for name in IDS[3:7]]
    assert (made.digest == SUITE.digest) is (not entries)


def test_both_formats(tmp_path: Path) -> None:
    entries = {"arithmetic-0001": "the text is unclear", "with space": "why not"}
    (tmp_path / "bad.json").write_text(json.dumps(entries))
    (tmp_path / "bad.toml").write_text('arithmetic-0001 = "the text is unclear"\n"with space" = "why not"\n')
    assert read_quarantine(tmp_path / "bad.json") == read_quarantine(tmp_path / "bad.toml") == entries


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.toml", "arithmetic-0001", "bad.toml: not TOML: "),
        ("bad.toml", "a = ' '", "bad.toml: field 'a': it is empty"),
        ("bad.json", "[" * 100_000, "bad.json: not JSON: "),
    ],
)
def test_what_is_none_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_quarantine(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
