"""Suites that are made in code: functions become tools, and what cannot be opened is told in one line that names the argument."""

from __future__ import annotations

from typing import Any

import pytest

from whichloop import Environment, Query, StatelessEnvironment, Suite, Task, Tool, Toolbox


def price(item: str) -> float:
    """Price of one item."""
    return 39.9


TASK = Task("lamp", Query("What does a lamp cost?"), 39.9)


def test_functions_and_tools_are_tools_of_an_environment_alike():
    made, given = StatelessEnvironment([price]).tools, StatelessEnvironment((Tool.from_function(price),)).tools
    assert [tool.spec for tool in made] == [tool.spec for tool in given]
    plain = Suite("s", "1", [TASK], lambda task: StatelessEnvironment([price]))
    assert plain.digest == Suite("s", "1", [TASK], lambda task: StatelessEnvironment(given)).digest


class Bare:
    """An environment whose tools are functions."""

    tools = (price,)

    def state(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Toolbox([price]), "Suite: open gave a Toolbox, which is no environment; it has to give one for each task, such as"),
        ([price], "Suite: open gave a list, which is no environment"),
        (None, "Suite: open gave a NoneType, which is no environment"),
        (Bare(), r"Suite: open gave an environment whose tools hold a function; Tool\.from_function\(f\) makes a tool"),
    ],
)
def test_what_is_no_environment_is_told_before_anything_runs(made: Any, said: str) -> None:
    suite = Suite("s", "1", [TASK], lambda task: made)
    with pytest.raises(ValueError, match=f"^{said}"):
        assert suite.digest


def test_an_open_that_is_no_function_is_told_when_the_suite_is_made():
    with pytest.raises(ValueError, match=r"^Suite: open is a Toolbox, not a function of a task"):
        Suite("s", "1", [TASK], Toolbox([price]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^StatelessEnvironment: tools: give a list of functions or tools, got a function"):
        StatelessEnvironment(price)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [NameError("name 'TOOLZ' is not defined"), KeyError("world"), RecursionError(), ValueError("no")])
def test_code_of_a_suite_that_cannot_open_its_tasks_is_one_line(error: Exception) -> None:
    def opens(task: Task) -> Environment:
        raise error

    suite = Suite("s", "1", [TASK], opens)
    with pytest.raises(ValueError, match=rf"^suite 's': task '{TASK.id}' cannot be opened: {type(error).__name__}") as told:
        assert suite.digest
    assert told.value.__cause__ is error


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("id", 1, "task 1: id: give a text, got 1"),
        ("query", "What?", r"task 'a': query: give Query\(text\), not a text"),
        ("plan", "c = price(item='x')\nanswer = c", r"task 'a': plan: give plan_from_lines\(text\), not a text"),
        ("scorer", price, "task 'a': scorer: give the name of a scorer, such as .*, got <function price at "),
        ("labels", ["hard"], r"task 'a': labels: give a dict, got \['hard'\]"),
    ],
)
def test_a_field_of_a_task_that_is_of_another_type_is_named_with_what_to_give(field: str, value: Any, said: str) -> None:
    fields: dict[str, Any] = {"id": "a", "query": Query("What?"), "expected": 1}
    with pytest.raises(ValueError, match=f"^{said}"):
        Task(**{**fields, field: value})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("version", 1, 'Suite: version: give a text, such as "1", got 1'),
        ("name", 7, "Suite: name: give a text, got 7"),
        ("tasks", TASK, r"Suite: tasks: give a list of tasks, got Task\("),
        ("tasks", ["x"], r"suite 's': task 1 of the list is 'x'; give Task\(id, query, expected\)"),
        ("step_limit", "9", "Suite: step_limit: give a whole number, not a text"),
        ("distractors", ["price"], "Suite: distractors: give a frozenset of tools' names, got "),
    ],
)
def test_a_field_of_a_suite_that_is_of_another_type_is_named_with_what_to_give(field: str, value: Any, said: str) -> None:
    fields: dict[str, Any] = {"name": "s", "version": "1", "tasks": [TASK], "open": lambda task: StatelessEnvironment([price])}
    with pytest.raises(ValueError, match=f"^{said}"):
        Suite(**fields | {field: value})
