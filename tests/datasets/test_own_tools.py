"""Tools of the user's own: what a module offers, and what environment a task gets of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets.importing.own_tools import ALLOWED, offered, own_tools
from whichloop.datasets.task import Task
from whichloop.protocol import Query


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Makes a module of a text."""

    def make(source: str) -> ModuleType:
        (tmp_path / "own_made.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "own_made", raising=False)
        return importlib.import_module("own_made")

    return make


def task(**world: Any) -> Task:
    return Task("t", Query("?"), 1, world=world)


FUNCTIONS = """
from json import dumps
from functools import cache
from whichloop import Task, Tool

LIMIT = 3
def search(query: str, most: int = 10) -> list[str]:
    "Search."
@cache
def read(page: int) -> str: ...
def today() -> str: ...
async def ask(text: str): ...
def untyped(x): ...
def _private(x: int): ...
class Page: ...
def world(task: Task): ...
"""


@pytest.mark.parametrize(
    ("more", "attribute", "expected"),
    [
        ("", "", ["search", "read", "today", "ask"]),
        ("TOOLS = [untyped, search]", "", ["untyped", "search"]),
        ("TOOLS = (Tool.from_function(untyped, name='other'),)", "", ["other"]),
        ("", "untyped", ["untyped"]),
        ("", "dumps", ["dumps"]),  # what is imported is offered only where it is named: helpers are imported, too
    ],
)
def test_what_a_module_offers(module, more, attribute, expected):
    assert [tool.name for tool in offered("own_made", module(FUNCTIONS + more), attribute).fixed] == expected


@pytest.mark.parametrize(
    ("source", "attribute", "said"),
    [
        ("", "", "neither TOOLS nor a public function of its own with type hints; .* is named: own_made:FUNCTION"),
        ("TOOLS = 3", "", "neither a list of functions nor an environment .*, but int"),
        ("def f(x: int): ...\nTOOLS = [f, f]", "", "two tools are named 'f'"),
    ],
)
def test_what_is_no_list_of_tools_is_refused_in_one_line(module, source, attribute, said):
    with pytest.raises(ValueError, match=said) as told:
        offered("own_made", module(source), attribute)
    assert str(told.value).startswith("tools 'own_made': ")
    assert "\n" not in str(told.value)


def price(item: str) -> float:
    """Price of an item."""
    return 2.0


def stock(item: str) -> int:
    """How many there are."""
    return 3


@given(st.lists(st.sampled_from(["price", "stock"]), unique=True))
def test_a_task_gets_the_tools_that_it_names_and_all_without(allowed):
    tools = own_tools("shop", [price, stock])
    assert [tool.name for tool in tools.open(task(**{ALLOWED: allowed})).tools] == allowed
    assert [tool.name for tool in tools.open(task()).tools] == ["price", "stock"]


def test_what_a_model_is_not_told_is_a_warning_of_one_line(module, caplog):
    source = "def price(item, most: int = 3): ...\ndef stock(item: str) -> int:\n    'In stock.'\ndef helper(x): ...\n"
    offered("gappy", module(source))
    assert [record.getMessage() for record in caplog.records] == [
        "a model knows of tools only what they say of themselves: price has no docstring; argument item of price has no type"
    ]
