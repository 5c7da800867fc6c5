"""Any JSON in any field of a published file is a suite, or a ValueError of one line that names the file."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.datasets import test_bfcl as of_bfcl
from tests.datasets import test_tau2 as of_tau2
from whichloop.checks.suite import task_problems
from whichloop.datasets import bfcl, tau2
from whichloop.datasets.task import Suite

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


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    made = copy.copy(value)
    made[at[0]] = replaced(value[at[0]], at[1:], new)
    return made


ENUM = {"type": "dict", "properties": {"k": {"type": "integer", "enum": [1, 2]}}, "required": ["k"]}
LISTS = of_bfcl.function("f", x={"type": "array", "items": ENUM})
ANYTHING = of_bfcl.function("g.h", y={"type": "any", "default": None, "description": "Anything."})
STATE = {
    "initialization_data": {"agent_data": {"users": {"bob": {"tasks": []}}}},
    "initialization_actions": [of_tau2.assertion("assert_number_of_tasks", user_id="bob", expected_number=0)],
    "message_history": [],
}
SWEPT = of_tau2.row(
    "t",
    of_tau2.CREATE | {"compare_args": ["user_id"], "requestor": "assistant"},
    of_tau2.FINISH,
    state=STATE,
    env_assertions=[of_tau2.assertion("assert_task_status", task_id="task_2", expected_status="completed")],
    communicate_info=["Sweep"],
    nl_assertions=["It is nice."],
    basis=["DB", "ACTION", "ENV_ASSERTION", "COMMUNICATE"],
)
SETS: dict[str, tuple[dict[str, Any], Callable[[Path], Suite]]] = {
    "bfcl": (
        {
            "questions.json": of_bfcl.row("multiple_1", LISTS, ANYTHING),
            "possible_answer/questions.json": of_bfcl.right("multiple_1", {"f": {"x": [[{"k": [1, 2]}]]}}),
        },
        lambda folder: bfcl.load(data=folder / "questions.json"),
    ),
    "tau2": (
        {"tasks.json": [SWEPT], "db.json": of_tau2.DB, "split_tasks.json": {"train": ["t"], "base": ["t"]}},
        lambda folder: tau2.load(data=folder),
    ),
}


@pytest.mark.parametrize("name", SETS)
@settings(deadline=None, max_examples=cases(50))
@given(data=st.data(), value=JSON)
def test_any_json_in_any_field(tmp_path_factory: Any, name: str, data: st.DataObject, value: Any) -> None:
    files, load = SETS[name]
    broken, at = data.draw(st.sampled_from([(file, at) for file, content in files.items() for at in places(content)]))
    folder = tmp_path_factory.mktemp("broken")
    (folder / "policy.md").write_text("Be brief.")
    for file, content in (files | {broken: replaced(files[broken], at, value)}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content))
    try:
        suite = load(folder)
    except ValueError as error:
        said = str(error)
        assert str(folder) in said
        assert "\n" not in said
    else:
        assert len(suite.digest) == 64
        assert task_problems(suite) == []
