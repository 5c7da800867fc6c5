"""Suites that are made in code: functions become tools, and what is wrong is told in one line; quarantine files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop import Environment, Query, StatelessEnvironment, Suite, Task
from whichloop.datasets import arithmetic
from whichloop.datasets.task import read_quarantine, with_quarantine


def price(item: str) -> float:
    """Price of one item."""
    return 39.9


TASK = Task("lamp", Query("What does a lamp cost?"), 39.9)


@pytest.mark.parametrize("error", [NameError("name 'TOOLZ' is not defined"), RecursionError()])
def test_code_of_a_suite_that_cannot_open_its_tasks_is_one_line(error: Exception) -> None:
    def opens(task: Task) -> Environment:
        raise error

    suite = Suite("s", "1", [TASK], opens)
    with pytest.raises(ValueError, match=rf"^suite 's': task '{TASK.id}' cannot be opened: {type(error).__name__}") as told:
        assert suite.digest
    assert told.value.__cause__ is error


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        (Task, "query", "What?", r"task 'a': query: give Query\(text\), not a text"),
        (Suite, "tasks", TASK, r"Suite: tasks: give a list of tasks, got Task\("),
        (Suite, "distractors", ["price"], "Suite: distractors: give a frozenset of tools' names, got "),
    ],
)
def test_a_field_that_is_of_another_type_is_named_with_what_to_give(kind: Any, field: str, value: Any, said: str) -> None:
    fields: dict[str, Any] = {"id": "a", "query": Query("What?"), "expected": 1}
    if kind is Suite:
        fields = {"name": "s", "version": "1", "tasks": [TASK], "open": lambda task: StatelessEnvironment([price])}
    with pytest.raises(ValueError, match=f"^{said}"):
        kind(**{**fields, field: value})


# Quarantine

SUITE = arithmetic.load(12)
IDS = [task.id for task in SUITE.tasks]


class Lazy(Sequence[Task]):
    """Tasks that are made when they are asked for."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, place):
        return Lazy(self.tasks[place]) if isinstance(place, slice) else self.tasks[place]


@given(st.dictionaries(st.sampled_from(IDS), st.text(min_size=1)))
@settings(max_examples=cases(12))
def test_exactly_the_named_tasks_are_quarantined_in_any_kind_of_list(entries: dict[str, str]) -> None:
    lazy = Suite(SUITE.name, SUITE.version, Lazy(SUITE.tasks), SUITE.open)
    for suite in (SUITE, lazy):
        made = with_quarantine(suite, entries)
        assert {task.id: task.quarantined for task in made.tasks if task.quarantined} == entries
        assert [task.id for task in made.tasks] == IDS
        assert [task.quarantined for task in made.tasks[3:7]] == [entries.get(name, "") for name in IDS[3:7]]
        assert (made.digest == suite.digest) is (not entries)
        assert len(made.tasks) == len(suite.tasks)


def test_both_formats(tmp_path: Path) -> None:
    entries = {"arithmetic-0001": "the text is unclear", "with space": "why not"}
    (tmp_path / "bad.json").write_text(json.dumps(entries))
    (tmp_path / "bad.toml").write_text('arithmetic-0001 = "the text is unclear"\n"with space" = "why not"\n')
    assert read_quarantine(tmp_path / "bad.json") == read_quarantine(tmp_path / "bad.toml") == entries


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.toml", "arithmetic-0001", "bad.toml: not TOML: "),
        ("bad.toml", "a = ' '", "bad.toml: task 'a': the reason is \" \", and must be a text that is not empty"),
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
