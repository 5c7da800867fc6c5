"""Any JSON in any field of a published file is a suite, or a ValueError of one line that names the file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.suite import task_problems
from whichloop.datasets import bfcl, tau2

WORDS = st.text(max_size=4) | st.sampled_from(["dict", "array", "f", "", "type", "items", "$ref", "task_1", "DB", "user", "tasks"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all parts of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, part in parts for place in places(part, (*at, key)))]


def places_in(files: dict[str, Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.sampled_from([(name, at) for name, content in files.items() for at in places(content)])


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    made = copy.copy(value)
    made[at[0]] = replaced(value[at[0]], at[1:], new)
    return made


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


ENUM = {"type": "dict", "properties": {"k": {"type": "integer", "enum": [1, 2]}}, "required": ["k"]}
BFCL = {
    "questions.json": {
        "id": "multiple_1",
        "question": [[{"role": "user", "content": "Play jazz."}]],
        "function": [
            {
                "name": "f",
                "description": "It is f.",
                "parameters": {"type": "dict", "properties": {"x": {"type": "array", "items": ENUM}}, "required": ["x"]},
            },
            {
                "name": "g.h",
                "description": "It is g.h.",
                "parameters": {
                    "type": "dict",
                    "properties": {"y": {"type": "any", "default": None, "description": "Anything."}},
                    "required": ["y"],
                },
            },
        ],
    },
    "possible_answer/questions.json": {"id": "multiple_1", "ground_truth": [{"f": {"x": [[{"k": [1, 2]}]]}}]},
}


@settings(deadline=None, max_examples=cases(50))
@given(places_in(BFCL), JSON)
def test_any_json_in_any_field_of_bfcl(tmp_path_factory: Any, place: Any, value: Any) -> None:
    name, at = place
    folder = tmp_path_factory.mktemp("broken")
    write(folder, BFCL | {name: replaced(BFCL[name], at, value)})
    try:
        suite = bfcl.load(data=folder / "questions.json")
    except ValueError as error:
        assert str(folder) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert len(suite.digest) == 64
        assert task_problems(suite) == []


TAU2: dict[str, Any] = {
    "tasks.json": [
        {
            "id": "t",
            "ticket": "Bob wants to sweep, and has done so.",
            "initial_state": {
                "initialization_data": {"agent_data": {"users": {"bob": {"tasks": []}}}},
                "initialization_actions": [
                    {
                        "env_type": "assistant",
                        "func_name": "assert_number_of_tasks",
                        "arguments": {"user_id": "bob", "expected_number": 0},
                        "assert_value": True,
                    }
                ],
                "message_history": [],
            },
            "evaluation_criteria": {
                "actions": [
                    {
                        "action_id": "a1",
                        "name": "create_task",
                        "arguments": {"user_id": "bob", "title": "Sweep"},
                        "compare_args": ["user_id"],
                        "requestor": "assistant",
                    },
                    {"action_id": "a2", "name": "update_task_status", "arguments": {"task_id": "task_2", "status": "completed"}},
                ],
                "env_assertions": [
                    {
                        "env_type": "assistant",
                        "func_name": "assert_task_status",
                        "arguments": {"task_id": "task_2", "expected_status": "completed"},
                        "assert_value": True,
                    }
                ],
                "communicate_info": ["Sweep"],
                "nl_assertions": ["It is nice."],
                "reward_basis": ["DB", "ACTION", "ENV_ASSERTION", "COMMUNICATE"],
            },
            "user_scenario": {"any": "thing"},
        }
    ],
    "db.json": {
        "tasks": {"task_1": {"task_id": "task_1", "title": "Water the ferns", "description": "All of them", "status": "pending"}},
        "users": {
            "ada": {"user_id": "ada", "name": "Ada", "tasks": ["task_1"]},
            "bob": {"user_id": "bob", "name": "Bob", "tasks": []},
        },
    },
    "split_tasks.json": {"train": ["t"], "base": ["t"]},
}


@settings(deadline=None, max_examples=cases(50))
@given(places_in(TAU2), JSON)
def test_any_json_in_any_field_of_tau2(tmp_path_factory: Any, place: Any, value: Any) -> None:
    name, at = place
    folder = tmp_path_factory.mktemp("broken")
    write(folder, TAU2 | {"policy.md": "Be brief."} | {name: replaced(TAU2[name], at, value)})
    try:
        suite = tau2.load(data=folder)
    except ValueError as error:
        assert str(folder / name) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert len(suite.digest) == 64
        assert task_problems(suite) == []
